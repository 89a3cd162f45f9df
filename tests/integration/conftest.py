"""What holds for every node inside a test's process, and a fixture of several modules."""

from collections.abc import Iterator

import pytest

from core.jetstream import group_committer
from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire


@pytest.fixture(autouse=True)
def storage_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what waits for storage wait, however long the machine stands still meanwhile.

    Publishes that nobody awaits would be refused unseen. Tests of the refusal override this.
    """
    monkeypatch.setattr(group_committer, "SLOW_S", 60.0)


@pytest.fixture
def bench(server: JetgateServer | NatsServer) -> Iterator[Bench]:
    """A stream and its consumer on both servers, one after the other."""
    with Wire(server.address) as wire:
        bench = Bench(wire)
        yield bench
        bench.clear()
