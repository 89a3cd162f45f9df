"""The directory for reports of a test run: that of `--junitxml`, else a new temporary one."""

import tempfile
from pathlib import Path

import pytest

_KEY = pytest.StashKey[Path]()


def directory(config: pytest.Config) -> Path:
    """Return the directory for reports of this run; create it at the first call."""
    if _KEY not in config.stash:
        report = config.getoption("xmlpath", default=None)
        found = Path(report).resolve().parent if report else Path(tempfile.mkdtemp(prefix="tests-"))
        found.mkdir(parents=True, exist_ok=True)
        config.stash[_KEY] = found
    return config.stash[_KEY]
