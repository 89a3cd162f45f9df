"""Every transcript holds on the reference server and on jetgate."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.wire.transcript import TRIES, is_hurried, play_file

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.rglob("*.txt"))


@pytest.fixture(scope="module")
def reference(
    request: pytest.FixtureRequest, nats_server: NatsServer
) -> Iterator[dict[Path, Future[None]]]:
    """The selected transcripts, played in a thread one after the other while jetgate has its turn.

    Most of the time goes by in waiting for what a server does by itself. The reference may always
    be asked again: its consumers learn of a message a moment after the publisher has its
    acknowledgement, so what it counts as pending can differ by one.
    """
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    paths = [at["path"] for at in chosen if at.get("server") == "nats-server" and "path" in at]
    with ThreadPoolExecutor(1) as pool:
        yield {path: pool.submit(play_file, path, nats_server, TRIES) for path in paths}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA))[:-4])
def test_transcript(
    path: Path, server: NatsServer | JetgateServer, request: pytest.FixtureRequest
) -> None:
    played: dict[Path, Future[None]] = request.getfixturevalue("reference")
    if isinstance(server, NatsServer):
        played[path].result()
    else:
        play_file(path, server, TRIES if is_hurried(path) else 1)
