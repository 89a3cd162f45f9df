"""Every transcript holds on the reference server and on jetgate."""

from pathlib import Path

import pytest

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.wire.transcript import Mismatch, play_file

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.rglob("*.txt"))
TRIES = 3
"""How often the reference may be asked: its consumers learn of a message a moment after the
publisher has its acknowledgement, so what it counts as pending can differ by one."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA))[:-4])
def test_transcript(path: Path, server: NatsServer | JetgateServer) -> None:
    for left in reversed(range(TRIES if isinstance(server, NatsServer) else 1)):
        try:
            return play_file(path, server)
        except Mismatch:
            if not left:
                raise
