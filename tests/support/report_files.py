"""Where a run writes files about itself: beside its `--junitxml`, else in a temporary directory."""

import tempfile
from pathlib import Path

import pytest

_KEY = pytest.StashKey[Path]()


def directory(config: pytest.Config) -> Path:
    """The directory of this run's files; never in the working tree by default."""
    if _KEY not in config.stash:
        report = config.getoption("xmlpath", default=None)
        found = Path(report).resolve().parent if report else Path(tempfile.mkdtemp(prefix="tests-"))
        found.mkdir(parents=True, exist_ok=True)
        config.stash[_KEY] = found
    return config.stash[_KEY]
