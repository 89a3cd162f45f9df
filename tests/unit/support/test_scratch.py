"""Data of tests are in memory only where there is room for them."""

# Subject: tests

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.scratch import scratch


@pytest.mark.parametrize(
    ("name", "room", "inside"), [("there", 1, True), ("there", 1 << 60, False), ("none", 1, False)]
)
def test_where(tmp_path: Path, name: str, room: int, inside: bool) -> None:
    (tmp_path / "there").mkdir()
    made = scratch("x-", memory=tmp_path / name, room=room)
    try:
        assert made.is_dir()
        assert made.parent == (tmp_path / name if inside else Path(tempfile.gettempdir()))
    finally:
        shutil.rmtree(made)
