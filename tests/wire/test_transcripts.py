"""Every transcript holds on the reference server and on jetgate."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


@pytest.fixture(scope="module")
def reference(
    request: pytest.FixtureRequest, nats_server: NatsServer
) -> Iterator[dict[Path, Future[None]]]:
    """The selected transcripts, played in a thread one after the other while jetgate has its turn.

    Most of the time goes by in waiting for what a server does by itself.
    """
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    paths = [at["path"] for at in chosen if at.get("server") == "nats-server" and "path" in at]
    with ThreadPoolExecutor(1) as pool:
        yield {path: pool.submit(_play_patiently, path, nats_server) for path in paths}
        pool.shutdown(cancel_futures=True)


def _play_patiently(path: Path, server: NatsServer) -> None:
    for left in reversed(range(TRIES)):
        try:
            return play_file(path, server)
        except Mismatch:
            if not left:
                raise


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA))[:-4])
def test_transcript(
    path: Path, server: NatsServer | JetgateServer, request: pytest.FixtureRequest
) -> None:
    played: dict[Path, Future[None]] = request.getfixturevalue("reference")
    if isinstance(server, NatsServer):
        played[path].result()
    else:
        play_file(path, server)
