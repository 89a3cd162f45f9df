"""Streams of a node that another node leads now: they are lost one by one, the others go on.

A stream lost during a load or a request leaves no subscription behind, which would
answer in the place of the new leader.
"""

# Subject: leadership

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

from core.node.ownership.state import LeasesLost
from core.node.runtime import JetStreamRuntime
from core.node.server import Server, ServerOptions
from core.runtime.clock import SystemClock
from core.storage.postgres.connect import Connector
from core.units import LeaseGroup
from tests.support.eventually import observed
from tests.support.node import lead
from tests.support.sql import on

_BUMP = "update jetgate_store.head set epoch = epoch + 1 where stream = any($1::int[]) returning 1"
_NOBODY = (NoStreamResponseError, NoRespondersError, ServiceUnavailableError)
_NOT_LED = (*_NOBODY, NatsTimeout)


class Place:
    """A runtime with streams A and B, a client, and publishers of both."""

    def __init__(self, database: str, runtime: JetStreamRuntime, client: Client) -> None:
        self.database, self.runtime, self.client = database, runtime, client
        self.js: JetStreamContext = client.jetstream()
        self.acked: dict[str, list[int]] = {"A": [], "B": []}
        self.is_over = False

    async def publish(self, stream: str, time_limit: float) -> None:
        """Publish until the end, or until nobody is there; what is not answered is left."""
        while not self.is_over:
            try:
                ack = await self.js.publish(stream.lower(), b"x", timeout=time_limit)
            except NatsTimeout:
                continue
            except _NOBODY:
                return
            assert ack.stream == stream
            self.acked[stream].append(ack.seq)

    async def published(self) -> int:
        """Publish to A once; return the sequence, or 0 without an answer."""
        try:
            return (await self.js.publish("a", b"kept", timeout=1)).seq
        except _NOT_LED:
            return 0

    def services(self) -> int:
        """Return the number of the server's own subscriptions."""
        account = self.runtime.registry.account
        return account.subscription_counts()[0] - account.client_subscriptions

    def lose_during(self, request: str) -> None:
        """Lose the lease of A once `directory_store` has committed the next such request."""
        store, group = self.runtime.directory_store, self.runtime.registry.streams["A"].lease_group
        commit = getattr(store, request)

        async def commit_and_lose(*arguments: object) -> Any:
            found = await commit(*arguments)
            lost = LeasesLost(frozenset({group}), "another node leads them")
            self.runtime._dispatch.post(lost)
            return found

        setattr(store, request, commit_and_lose)

    def runner(self, stream: str) -> int:
        return self.runtime.registry.streams[stream].stream

    async def sql(self, statement: str, *arguments: object) -> list[tuple[int, ...]]:
        return await asyncio.to_thread(on, self.database, statement, arguments=arguments)


def scenario(run: Callable[[Place], Awaitable[None]], database: str) -> None:
    async def go() -> None:
        server = Server(ServerOptions(port=0), SystemClock())
        runtime = await lead(server, Connector(database), name="n")
        try:
            await server.listen()
            client = await nats.connect(server.nats_address)
            try:
                place = Place(database, runtime, client)
                for name in ("A", "B"):
                    await place.js.add_stream(StreamConfig(name=name, subjects=[name.lower()]))
                await run(place)
            finally:
                await client.close()
        finally:
            server.close_ports()
            await runtime.retire()
            await server.disconnect()
            await runtime.stop()

    async def limited() -> None:
        async with asyncio.timeout(60):
            await go()

    asyncio.run(limited())


def test_a_stream_that_another_node_leads_is_lost_and_the_others_go_on(database: str) -> None:
    async def run(place: Place) -> None:
        js, acked = place.js, place.acked
        explicit = ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT)
        pulls = await js.pull_subscribe("a", durable="C", stream="A", config=explicit)
        number = place.runner("A")
        load = [
            asyncio.ensure_future(place.publish(name, time_limit))
            for name, time_limit in (("A", 0.5), ("A", 0.5), ("B", 50), ("B", 50))
        ]
        await observed(lambda: min(map(len, acked.values())) > 20)
        [message] = await pulls.fetch(1, timeout=10)

        await place.sql(_BUMP, [number])

        await asyncio.gather(*load[:2])
        before = len(acked["B"])
        await observed(lambda: len(acked["B"]) > before + 20)
        place.is_over = True
        await asyncio.gather(*load)
        assert not place.runtime.deposed.is_set()

        # What was acknowledged is there, and no sequence was given twice.
        [(last,)] = await place.sql(
            "select last_seq from jetgate_store.head where stream = $1", number
        )
        stored = "select seq from jetgate_store.message where stream = $1 order by seq"
        assert await place.sql(stored, number) == [(seq,) for seq in range(1, last + 1)]
        assert len(set(acked["A"])) == len(acked["A"])
        assert max(acked["A"]) <= last
        assert sorted(acked["B"]) == list(range(1, len(acked["B"]) + 1))

        for request in (js.stream_info("A"), js.add_stream(name="A", subjects=["a"])):
            with pytest.raises(APIError) as refused:
                await request
            assert refused.value.err_code == 10008
        with pytest.raises(_NOT_LED):
            await message.ack_sync(timeout=5)
        assert (await js.stream_info("B")).state.last_seq == len(acked["B"])

    scenario(run, database)


def test_with_the_directory_only_streams_of_another_node_are_lost(database: str) -> None:
    async def run(place: Place) -> None:
        await place.js.publish("a", b"x")
        await place.sql(_BUMP, [0, place.runner("A")])

        with pytest.raises(_NOT_LED):
            await place.js.publish("a", b"x", timeout=0.2)

        assert (await place.js.publish("b", b"x")).seq == 1
        assert not place.runtime.deposed.is_set()

    scenario(run, database)


def test_the_streams_of_a_lost_group_are_closed_without_a_commit(database: str) -> None:
    async def run(place: Place) -> None:
        dispatch = place.runtime._dispatch
        group = place.runtime.registry.streams["A"].lease_group
        explicit = ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT)
        await place.js.pull_subscribe("a", durable="C", stream="A", config=explicit)
        waits = await place.client.subscribe("answers")
        await place.client.publish(
            "$JS.API.CONSUMER.MSG.NEXT.A.C", b'{"batch": 1, "expires": 30000000000}', "answers"
        )
        await place.client.flush()

        dispatch.post(LeasesLost(frozenset({group}), "another node leads them"))

        ended = await waits.next_msg(timeout=10)
        assert (ended.headers or {})["Status"] == "409"
        with pytest.raises(_NOT_LED):
            await place.js.publish("a", b"x", timeout=3)
        assert (await place.js.publish("b", b"x")).seq == 1

    scenario(run, database)


async def renew(place: Place) -> None:
    """Renew the leases in the same session, as after an outage."""
    await place.runtime.recover([])


_OVERDUE = """
    select seq from jetgate_store.message
     where hdr is not null
       and ts + 1000000000 < extract(epoch from clock_timestamp()) * 1000000000
"""


async def fence(place: Place) -> None:
    """Raise the epoch of a stream, as another node does that acquires it."""
    # Its message must be overdue, so that the load commits its expiry.
    await observed(lambda: place.sql(_OVERDUE))
    await place.sql(
        "update jetgate_store.head set epoch = epoch + 1 from jetgate_store.stream s"
        " where s.stream = head.stream and s.name = 'A' returning 1"
    )


@pytest.mark.parametrize("meanwhile", [renew, fence])
def test_a_stream_whose_epoch_is_raised_during_its_load_is_loaded_again(
    database: str, meanwhile: Callable[[Place], Awaitable[None]]
) -> None:
    async def run(place: Place) -> None:
        js, runtime = place.js, place.runtime
        await js.update_stream(
            StreamConfig(name="A", subjects=["a"], allow_direct=True, allow_msg_ttl=True)
        )
        group, load = runtime.registry.streams["A"].lease_group, runtime.directory_store.load
        before = place.services()

        async def load_slowly(groups: Collection[LeaseGroup]) -> Any:
            found = await load(groups)
            if group in groups:
                runtime.directory_store.load = load  # type: ignore[method-assign]
                await meanwhile(place)
            return found

        runtime.directory_store.load = load_slowly  # type: ignore[method-assign]
        await js.publish("a", b"short", headers={"Nats-TTL": "1s"})
        await runtime.placement._request(lambda: runtime.transfers.transfer({"": {group}}))
        await observed(lambda: runtime.directory_store.load is load)

        ack = await observed(place.published)
        assert (await js.get_msg("A", ack, direct=True)).data == b"kept"
        assert place.services() == before
        assert not runtime.deposed.is_set()

    scenario(run, database)


def test_a_consumer_created_while_its_stream_is_lost_is_not_served(database: str) -> None:
    async def run(place: Place) -> None:
        place.lose_during("add_consumer")
        config = ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT)

        with suppress(APIError, NatsTimeout):
            await place.js.add_consumer("A", config)

        with pytest.raises(NoRespondersError):
            await place.client.request(
                "$JS.API.CONSUMER.MSG.NEXT.A.C", b'{"no_wait": true}', timeout=5
            )

    scenario(run, database)


def test_a_stream_lost_during_its_update_answers_no_direct_get(database: str) -> None:
    async def run(place: Place) -> None:
        place.lose_during("set_stream")

        with pytest.raises(APIError) as refused:
            await place.js.update_stream(StreamConfig(name="A", subjects=["a"], allow_direct=True))

        assert refused.value.err_code == 10008
        with pytest.raises(NoRespondersError):
            await place.client.request("$JS.API.DIRECT.GET.A", b'{"seq": 1}', timeout=5)

    scenario(run, database)
