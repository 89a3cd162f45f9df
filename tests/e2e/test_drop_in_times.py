"""How soon `jetgate-nats-server` is there and gone, and many of it at once."""

# Subject: costs

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nats
import pytest

from tests.support.best import best, runnable_seconds
from tests.support.dropin import DropIn

pytestmark = pytest.mark.quiet

NAME = "jetgate-nats-server"
PLAIN = ("-a", "127.0.0.1", "-p", "-1")
MANY = 20


@pytest.fixture
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Directories on a disk that are not there yet."""
    place = tmp_path_factory.mktemp("stores")
    return (str(place / str(number)) for number in range(100))


def ready(*arguments: str) -> float:
    """Seconds from its start until it says that it is ready, on a processor of its own."""
    began = time.monotonic()
    with DropIn(NAME, *PLAIN, *arguments) as server:
        server.ports()
        return time.monotonic() - began - runnable_seconds(server.process.pid)


def gone(*arguments: str, number: signal.Signals = signal.SIGTERM) -> float:
    """Seconds from a signal until it has ended."""
    with DropIn(NAME, *PLAIN, *arguments) as server:
        server.ports()
        began = time.monotonic()
        server.send(number)
        assert server.end() == 0
        return time.monotonic() - began


def test_without_jetstream_it_is_ready_at_once() -> None:
    assert best(6, 0.4, ready) < 0.4


def test_with_jetstream_and_an_empty_store_it_is_ready_soon(stores: Iterator[str]) -> None:
    assert best(6, 2, lambda: ready("-js", "-sd", next(stores))) < 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_jetstream_it_is_gone_soon(number: signal.Signals) -> None:
    assert best(6, 1, lambda: gone(number=number)) < 1


def test_with_jetstream_it_is_gone_soon(stores: Iterator[str]) -> None:
    assert best(6, 1, lambda: gone("-js", "-sd", next(stores))) < 1


@pytest.mark.thorough
def test_twenty_run_side_by_side_each_with_a_store_of_its_own(tmp_path: Path) -> None:
    async def publish(server: DropIn, body: bytes) -> None:
        client = await nats.connect(server.url, connect_timeout=60)
        context = client.jetstream(timeout=60)
        await context.add_stream(name="S", subjects=["s"])
        assert (await context.publish("s", body)).seq == 1
        assert (await context.get_msg("S", 1)).data == body
        await client.close()

    async def publish_on_each() -> None:
        await asyncio.gather(*(publish(s, b"%d" % i) for i, s in enumerate(servers)))

    with ExitStack() as stack:
        servers = [
            stack.enter_context(DropIn(NAME, *PLAIN, "-js", "-sd", str(tmp_path / str(number))))
            for number in range(MANY)
        ]
        assert len({server.address for server in servers}) == MANY
        asyncio.run(publish_on_each())
        for server in servers:
            server.send(signal.SIGTERM)
        assert [server.end(60) for server in servers] == [0] * MANY
