"""The directory for files that a run writes about itself: that of `--junitxml`, else a new one."""

import tempfile
from pathlib import Path

import pytest

_KEY = pytest.StashKey[Path]()


def directory(config: pytest.Config) -> Path:
    """Return the directory of this run's files: by default temporary, outside the working tree."""
    if _KEY not in config.stash:
        report = config.getoption("xmlpath", default=None)
        found = Path(report).resolve().parent if report else Path(tempfile.mkdtemp(prefix="tests-"))
        found.mkdir(parents=True, exist_ok=True)
        config.stash[_KEY] = found
    return config.stash[_KEY]
