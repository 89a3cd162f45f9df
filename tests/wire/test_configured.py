"""Transcripts of servers that need a configuration: one folder each, with its `server.conf`.

Both commands take the same file; the transcripts of a folder are played on one server, in order.
"""

from pathlib import Path

import pytest

from tests.support.dropin import DropIn
from tests.wire.transcript import TRIES, Player, is_hurried, parse

DATA = Path(__file__).parent / "configured"
FOLDERS = sorted(path.parent.name for path in DATA.glob("*/server.conf"))


def start(name: str, folder: Path, store: Path) -> DropIn:
    """A server under the configuration of a folder, on a free port."""
    place = ("-a", "127.0.0.1", "-p", "-1", "-sd", str(store))
    return DropIn(name, "-c", str(folder / "server.conf"), *place)


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return DATA / str(request.param)


def play(folder: Path, name: str, place: Path) -> None:
    """Play the transcripts of a folder on a server that is started for them."""
    place.mkdir()
    with start(name, folder, place) as server:
        for path in sorted(folder.glob("*.txt")):
            player = Player(server.address)
            try:
                player.play(parse(path.read_text()))
            except AssertionError as error:
                raise AssertionError(f"{path.name}, {error}") from error
            finally:
                player.close()


def test_transcripts(folder: Path, name: str, tmp_path: Path) -> None:
    """The reference may be asked again: on a busy machine its timers end in any order."""
    again = name == "nats-server" or any(map(is_hurried, folder.glob("*.txt")))
    for left in reversed(range(TRIES if again else 1)):
        try:
            return play(folder, name, tmp_path / str(left))
        except AssertionError:
            if not left:
                raise
