"""A plugin of pytest under which the packages of the extra `all-tests` cannot be imported.

`pytest -p tests.support.without_extras` simulates an environment with `.[dev]` alone.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

ABSENT = ("adbc_driver_manager", "adbc_driver_postgresql", "numpy", "pandas", "pyarrow", "pyspark")
"""Modules that tests import and `.[dev]` does not install."""


class _Without(PathFinder):
    """A finder for the modules on the path, except the absent ones."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the module's spec; None for an absent module."""
        if fullname.partition(".")[0] in ABSENT:
            return None
        return super().find_spec(fullname, path, target)


def install() -> None:
    """Hide the absent modules in this process."""
    sys.meta_path[:] = [_Without if one is PathFinder else one for one in sys.meta_path]


def pytest_configure() -> None:
    """Hide them before test modules are imported."""
    install()
