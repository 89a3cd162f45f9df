"""Every transcript holds on the reference server and on jetgate."""

from pathlib import Path

import pytest

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.wire.transcript import play_file

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.rglob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA))[:-4])
def test_transcript(path: Path, server: NatsServer | JetgateServer) -> None:
    play_file(path, server)
