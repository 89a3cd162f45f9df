"""A directory in a place that everybody may write: who made what leads to it."""

# Subject: storage, schema

import os
from pathlib import Path

import pytest

from core.errors import OperatorError
from core.storage.directory_lock import lock_directory
from core.storage.directory_owner import refuse_foreign

_OTHER = 54321
_REFUSED = r"belongs to user .*remove it, or choose another directory"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory for everybody's files."""
    found = tmp_path / "shared"
    found.mkdir()
    found.chmod(0o1777)
    return found


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> "_GiveAway":
    return _GiveAway(monkeypatch)


class _GiveAway:
    """Makes a path look like that of another user, which only root could make it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._other_owner: set[str] = set()
        self._stat, self._lstat = Path.stat, Path.lstat
        patch.setattr(Path, "stat", lambda path, **more: self._owned(self._stat(path, **more)))
        patch.setattr(Path, "lstat", lambda path: self._owned(self._lstat(path)))

    def __call__(self, path: Path) -> None:
        self._other_owner.add(self._key(self._lstat(path)))

    def _owned(self, found: os.stat_result) -> os.stat_result:
        if self._key(found) not in self._other_owner:
            return found
        return os.stat_result((*found[:4], _OTHER, *found[5:]))

    @staticmethod
    def _key(found: os.stat_result) -> str:
        return f"{found.st_dev} {found.st_ino}"


def test_entries_that_this_user_made_are_accepted(shared: Path) -> None:
    (shared / "nats").mkdir(0o755)
    os.close(lock_directory(shared / "nats" / "jetstream"))
    refuse_foreign(shared / "nats" / "jetstream")


def test_entries_that_another_user_made_are_refused(shared: Path, give_away: _GiveAway) -> None:
    (shared / "nats").mkdir()
    give_away(shared / "nats")

    with pytest.raises(OperatorError, match=_REFUSED):
        lock_directory(shared / "nats")
    with pytest.raises(OperatorError, match=_REFUSED):
        lock_directory(shared / "nats" / "jetstream")
    assert not (shared / "nats" / "lock").exists()


def test_a_link_of_another_is_refused_wherever_it_leads(
    shared: Path, give_away: _GiveAway, tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    (shared / "nats").symlink_to(tmp_path / "ours")
    refuse_foreign(shared / "nats")
    give_away(shared / "nats")

    with pytest.raises(OperatorError, match=_REFUSED):
        lock_directory(shared / "nats" / "jetstream")


def test_a_link_of_ours_to_what_another_has_made_is_refused(
    shared: Path, give_away: _GiveAway, tmp_path: Path
) -> None:
    (shared / "theirs").mkdir()
    (tmp_path / "link").symlink_to(shared / "theirs")
    give_away(shared / "theirs")

    with pytest.raises(OperatorError, match=_REFUSED):
        lock_directory(tmp_path / "link")


def test_a_world_writable_directory_is_refused(shared: Path) -> None:
    (shared / "nats").mkdir()
    (shared / "nats").chmod(0o777)

    with pytest.raises(OperatorError, match=r"is writable for every user.*chmod o-w"):
        lock_directory(shared / "nats")


def test_a_world_writable_volume_can_be_used(shared: Path) -> None:
    os.close(lock_directory(shared / "jetstream"))


def test_a_lock_that_is_a_link_is_not_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (shared / "nats").mkdir()
    (shared / "nats" / "lock").symlink_to(tmp_path / "precious")

    with pytest.raises(OperatorError, match="cannot use data directory"):
        lock_directory(shared / "nats")
    assert (tmp_path / "precious").read_text() == "kept"
