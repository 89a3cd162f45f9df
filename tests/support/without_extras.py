"""A plugin of pytest under which the packages of the extra `all-tests` cannot be found.

`pytest -p tests.support.without_extras` stands for an environment that has `.[dev]` alone.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

ABSENT = ("adbc_driver_manager", "adbc_driver_postgresql", "numpy", "pandas", "pyarrow", "pyspark")
"""Modules that `.[dev]` does not bring and that tests import."""


class _Without(PathFinder):
    """Finds what is on the path, except the absent modules."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's spec; None for an absent module."""
        if fullname.partition(".")[0] in ABSENT:
            return None
        return super().find_spec(fullname, path, target)


def install() -> None:
    """Make the absent modules absent in this process."""
    sys.meta_path[:] = [_Without if one is PathFinder else one for one in sys.meta_path]


def pytest_configure() -> None:
    """Make them absent before test modules are imported."""
    install()
