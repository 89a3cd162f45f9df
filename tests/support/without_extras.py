"""A pytest plugin that prevents imports of the packages of the extra `all-tests`.

`pytest -p tests.support.without_extras` simulates an environment with `.[dev]` alone.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

ABSENT = ("adbc_driver_manager", "adbc_driver_postgresql", "numpy", "pandas", "pyarrow", "pyspark")
"""Modules that tests import and `.[dev]` does not install."""


class _Without(PathFinder):
    """A finder of modules on `sys.path` that does not find the modules in `ABSENT`."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module; None if it is in `ABSENT` or does not exist."""
        if fullname.partition(".")[0] in ABSENT:
            return None
        return super().find_spec(fullname, path, target)


def install() -> None:
    """Make imports of the modules in `ABSENT` fail in this process."""
    sys.meta_path[:] = [_Without if one is PathFinder else one for one in sys.meta_path]


def pytest_configure() -> None:
    """Call `install` before pytest imports test modules."""
    install()
