"""Our JetStream on another system: nats-server mirrors and sources streams of jetgate.

nats-server accepts leaf nodes; jetgate is one there, and offers what it takes to read its streams.
"""

# Subject: remotes

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import StreamInfo
from nats.js.errors import ServiceUnavailableError

from core.auth.users import User, Users
from core.node.runtime import RuntimeOptions
from core.node.server import ServerOptions
from core.remote.settings import Remote
from tests.remotes.sourcing import Pair
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import running_node
from tests.support.remotes import leaf_url, started_hub


@contextmanager
def linked(where: Path) -> Iterator[tuple[NatsServer, JetgateServer]]:
    """nats-server, and jetgate as a leaf node of it."""
    with started_hub() as hub:
        path = where / "jetgate.conf"
        path.write_text(f'remotes {{ name: gate, url: "{leaf_url(hub)}" }}\n')
        with JetgateServer("--config", str(path), in_memory=True) as node:
            yield hub, node


@pytest.fixture
def hub() -> Iterator[NatsServer]:
    with started_hub() as server:
        yield server


def test_its_clients_read_our_streams_and_change_nothing(database: str, hub: NatsServer) -> None:
    async def work() -> None:
        users = Users(users=(User("ann", "secret"),))
        options = RuntimeOptions(remotes=(Remote("gate", leaf_url(hub)),))
        server = ServerOptions(port=0, users=users)
        async with running_node(database, options=options, server=server) as node:
            ours = await nats.connect(node.nats_address, user="ann", password="secret")
            await ours.jetstream(timeout=30).add_stream(name="OURS", subjects=["ours.>"])
            for number in range(30):
                await ours.jetstream(timeout=30).publish(f"ours.{number}", b"%d" % number)
            nc = await nats.connect(f"nats://127.0.0.1:{hub.address[1]}")
            there = nc.jetstream(domain="gate", timeout=20)
            info = await once_served(there)
            sub = await there.pull_subscribe("ours.>", durable="puller", stream="OURS")
            pulled = await sub.fetch(30, timeout=20)
            for msg in pulled:
                await msg.ack_sync(timeout=20)
            acked = await ours.jetstream(timeout=30).consumer_info("OURS", "puller")
            pushed = await there.subscribe("ours.>", stream="OURS", ordered_consumer=True)
            seen = [(await pushed.next_msg(timeout=20)).subject for _ in range(30)]
            with pytest.raises(NoRespondersError):
                await nc.request("$JS.gate.API.STREAM.PURGE.OURS", b"", timeout=20)
            with pytest.raises(NoRespondersError):
                await nc.request("$JS.gate.API.STREAM.DELETE.OURS", b"", timeout=20)
            await nc.close()
            await ours.close()

            assert info.state.messages == 30
            assert [msg.data for msg in pulled] == [b"%d" % n for n in range(30)]
            assert [msg.subject for msg in pulled] == [f"ours.{n}" for n in range(30)]
            assert acked.ack_floor.stream_seq == 30
            assert seen == [f"ours.{n}" for n in range(30)]

    asyncio.run(work())


async def once_served(there: JetStreamContext) -> StreamInfo:
    """What the stream is, as soon as the other server knows that we serve it."""

    async def look() -> StreamInfo | None:
        try:
            return await there.stream_info("OURS")
        except ServiceUnavailableError:
            return None

    return await observed(look)


def through_its_outage(where: Path) -> None:
    with linked(where) as (hub, node):
        pair = Pair(origin=node, sourcing=hub, domain="gate")
        publisher = pair.begin()

        hub.kill()
        pair.goes_on(publisher, 200)
        hub.start()

        pair.check(publisher)


def through_ours(where: Path) -> None:
    with linked(where) as (hub, node):
        pair = Pair(origin=node, sourcing=hub, domain="gate")
        publisher = pair.begin()

        node.restart()
        pair.goes_on(publisher, 200)

        pair.check(publisher)


@pytest.fixture(scope="module")
def outages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Both at the same time: what takes long is how long nats-server waits to ask again."""
    work = {"its": through_its_outage, "ours": through_ours}
    with ThreadPoolExecutor() as pool:
        yield {who: pool.submit(go, tmp_path_factory.mktemp(who)) for who, go in work.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("whose", ["its", "ours"])
def test_a_server_that_copies_from_us_catches_up_after_an_outage(
    outages: dict[str, Future[None]], whose: str
) -> None:
    outages[whose].result()
