"""Several `jetgate serve` over one database: any of them serves any client, whoever leads."""

# Subject: several nodes

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.request import Request, urlopen

import asyncpg
import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as Unanswered
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from tests.support.best import best
from tests.support.eventually import eventually, observed
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes, numbers, readiness
from tests.support.pg import PostgresServer
from tests.support.scenario import run_within

UNAVAILABLE = 10008
PATIENT = 60.0
UNANSWERED = 5.0
"""When a publisher takes it that its publish will not be answered, in seconds."""


@pytest.fixture(scope="module")
def dsn(durable: PostgresServer) -> str:
    return durable.fresh_database()


@pytest.fixture(scope="module")
def nodes(dsn: str) -> Iterator[Nodes]:
    with Nodes(dsn, 3) as nodes:
        yield nodes


@asynccontextmanager
async def client(node: JetgateServer) -> AsyncIterator[Client]:
    """A client that does not come back once its connection is lost."""
    connection = await nats.connect(
        "nats://{}:{}".format(*node.address), allow_reconnect=False, connect_timeout=30
    )
    try:
        yield connection
    finally:
        await connection.close()


async def stored(js: JetStreamContext, subject: str, payload: bytes) -> None:
    """Publish until it is acknowledged, as publishers do that want it stored once.

    While nobody leads it may be refused. What was given to a leader that was killed just then is
    answered by nobody: no node can know whether it was stored, so none sends it again.
    """

    async def is_stored() -> bool:
        try:
            headers = {"Nats-Msg-Id": payload.decode()}
            await js.publish(subject, payload, timeout=UNANSWERED, headers=headers)
        except Unanswered:
            return False
        except APIError as error:
            if error.err_code != UNAVAILABLE:
                raise
            return False
        return True

    await observed(is_stored, within=120)


def over_http(node: JetgateServer, path: str, body: str) -> Any:
    request = Request(
        "http://{}:{}/v1/{}".format(*node.http, path),
        body.encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_everything_is_served_by_a_node_that_does_not_lead(nodes: Nodes) -> None:
    async def scenario() -> None:
        leader, (one, other) = nodes.roles
        async with client(one) as nc, client(other) as far, client(leader) as near:
            js, there = nc.jetstream(timeout=PATIENT), far.jetstream(timeout=PATIENT)
            await js.add_stream(name="ALL", subjects=["all.>"], allow_direct=True)
            seqs = [(await js.publish(f"all.{n}", b"%d" % n)).seq for n in range(1, 6)]
            assert seqs == [1, 2, 3, 4, 5]

            pull = await there.pull_subscribe("all.>", durable="pull")
            for message in await pull.fetch(5, timeout=PATIENT):
                await message.ack_sync(timeout=PATIENT)
            here = near.jetstream(timeout=PATIENT)
            assert (await here.consumer_info("ALL", "pull")).num_ack_pending == 0

            push = await js.subscribe("all.>", durable="push")
            assert [(await push.next_msg(PATIENT)).data for _ in range(5)] == [*map(_text, seqs)]
            ordered = await there.subscribe(
                "all.>", ordered_consumer=True, config=ConsumerConfig(headers_only=False)
            )
            assert [(await ordered.next_msg(PATIENT)).data for _ in range(5)] == [*map(_text, seqs)]
            assert (await there.get_last_msg("ALL", "all.3", direct=True)).data == b"3"

            bucket = await js.create_key_value(bucket="KEYS")
            watcher = await (await there.key_value("KEYS")).watchall()
            assert await watcher.updates(timeout=PATIENT) is None
            await bucket.put("a", b"1")
            assert (await watcher.updates(timeout=PATIENT)).value == b"1"
            assert (await (await here.key_value("KEYS")).get("a")).value == b"1"

            async def answer(message: Any) -> None:
                await message.respond(message.data + b"!")

            await far.subscribe("asked", cb=answer)
            await far.flush()

            async def asked() -> bool:
                try:
                    return (await nc.request("asked", b"x", timeout=PATIENT)).data == b"x!"
                except NoRespondersError:  # the interest is on its way
                    return False

            await observed(asked)
            with pytest.raises(NoRespondersError):
                await nc.request("asked.by.nobody", b"", timeout=PATIENT)

    run_within(240, scenario)


def _text(number: int) -> bytes:
    return b"%d" % number


def test_over_http_each_step_may_go_to_another_node(nodes: Nodes) -> None:
    leader, (one, other) = nodes.roles

    async def scenario() -> None:
        async with client(one) as nc:
            js = nc.jetstream(timeout=PATIENT)
            await js.add_stream(name="WEB", subjects=["web.>"])
            await js.add_consumer("WEB", ConsumerConfig(durable_name="w", ack_policy="explicit"))  # type: ignore[arg-type]

    run_within(240, scenario)
    assert over_http(one, "subjects/web.1", '"hello"')["seq"] == 1
    fetched = over_http(other, "streams/WEB/consumers/w:fetch", '{"batch": 1, "expires": "30s"}')
    [message] = fetched["messages"]
    acked = {"tokens": [message["token"]], "sync": True}
    over_http(leader, "streams/WEB/consumers/w:ack", json.dumps(acked))
    # While a stream moves, so that all lead about as many, it has no leader for a moment.
    eventually(lambda: all(readiness(node) == (200, "") for node in nodes.all))


def test_clients_stay_when_the_leader_is_killed_and_lose_nothing(nodes: Nodes) -> None:
    async def scenario() -> None:
        leader, (one, other) = nodes.roles
        async with client(one) as nc, client(other) as far:
            js, there = nc.jetstream(timeout=PATIENT), far.jetstream(timeout=PATIENT)
            await led_by(leader, "KILL", "kill.>")
            await there.subscribe("kill.>", durable="reader", manual_ack=True)
            core = await far.subscribe("core.news")
            await far.flush()
            await stored(js, "kill.a", b"before")

            leader.kill()
            for number in range(20):
                await stored(js if number % 2 else there, "kill.a", b"%d" % number)
            assert nc.is_connected
            assert far.is_connected
            info = await js.stream_info("KILL")
            assert info.state.messages == 21
            await nc.publish("core.news", b"still here")
            assert (await core.next_msg(PATIENT)).data == b"still here"
            assert (await there.consumer_info("KILL", "reader")).name == "reader"

    run_within(240, scenario)
    for node in nodes.all:
        if node.process is None:
            node.start()
    nodes.settled()


@asynccontextmanager
async def no_leader(dsn: str, *streams: str) -> AsyncIterator[None]:
    """Keep every node from taking over streams and the stream directory: their rows are locked.

    Nodes pass over what is locked, so they do not wait, and lead nothing before the block is over.
    """
    session = await asyncpg.connect(dsn)
    try:
        await session.execute("begin")
        await session.fetch(
            "select from jetgate_store.lease_holder where lease_group = 0 or lease_group in"
            " (select lease_group from jetgate_store.stream where name = any($1)) for update",
            streams,
        )
        yield
        await session.execute("rollback")
    finally:
        session.terminate()


async def gathered(nc: Client, leader: str, *streams: str) -> None:
    """Have a node lead streams, wherever they are led now, and for some seconds at least.

    They stay so long where they have come because a client wanted it; others may move elsewhere at
    any time, so that all nodes lead about as many. So each moves, away first if it is there.
    """

    async def has_moved(stream: str, to_leader: bool) -> bool:
        config = (await nc.jetstream(timeout=PATIENT).stream_info(stream)).cluster
        if config is not None and (config.leader == leader) == to_leader:
            return True
        asked = json.dumps({"placement": {"preferred": leader}}).encode() if to_leader else b""
        await nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", asked, timeout=PATIENT)
        return False

    for stream in streams:
        for to_leader in (False, True):
            await observed(partial(has_moved, stream, to_leader))


async def led_by(node: JetgateServer, name: str, subject: str) -> None:
    """Create a stream where a node leads it."""
    async with client(node) as nc:
        await nc.jetstream(timeout=PATIENT).add_stream(name=name, subjects=[subject])


def test_without_a_leader_publishes_are_held_and_then_refused(nodes: Nodes, dsn: str) -> None:
    async def scenario() -> None:
        leader, (one, _) = nodes.roles
        async with client(one) as nc:
            js = nc.jetstream(timeout=PATIENT)
            await led_by(leader, "HELD", "held.>")
            async with no_leader(dsn, "HELD"):
                loop = asyncio.get_running_loop()
                began = loop.time()
                leader.kill()
                await observed(lambda: not numbers(one)["jetgate_has_leader"])
                for attempt in range(2):
                    with pytest.raises(APIError) as refused:
                        await js.publish("held.a", b"x")
                    assert refused.value.err_code == UNAVAILABLE
                    if not attempt:
                        assert loop.time() - began > 1.9
                assert "WARNING no leader is reachable: publishes are refused" in one.log()
                with pytest.raises(APIError) as refused:
                    await js.stream_info("HELD")
                assert refused.value.err_code == UNAVAILABLE
                with pytest.raises(NoRespondersError):
                    await nc.request("nobody.listens", b"", timeout=PATIENT)
                status, why = await asyncio.to_thread(readiness, one)
                assert (status, why) == (503, "nothing can be stored: no leader is reachable")
            await stored(js, "held.a", b"again")
            assert nc.is_connected
            assert (await js.stream_info("HELD")).state.messages == 1

    run_within(240, scenario)
    for node in nodes.all:
        if node.process is None:
            node.start()
    nodes.settled()


def test_a_leader_that_is_stopped_hands_over_without_a_failed_publish(nodes: Nodes) -> None:
    failed = best(3, 1, lambda: _failed_publishes(nodes))
    assert failed < 1


def _failed_publishes(nodes: Nodes) -> float:
    """How many publishes through other nodes were refused while a leader was stopped."""
    refused = 0

    async def scenario() -> None:
        nonlocal refused
        leader, (one, other) = nodes.roles
        async with client(one) as nc, client(other) as far:
            await led_by(leader, "MOVE", "move.>")
            before = (await nc.jetstream(timeout=PATIENT).stream_info("MOVE")).state.messages
            publishers = [c.jetstream(timeout=PATIENT) for c in (nc, far)]
            is_over = False
            sent = 0

            async def publish(js: JetStreamContext) -> None:
                nonlocal sent, refused
                while not is_over:
                    try:
                        await js.publish("move.a", b"x")
                        sent += 1
                    except APIError as error:
                        if error.err_code != UNAVAILABLE:
                            raise
                        refused += 1

            async with asyncio.TaskGroup() as group:
                for js in publishers:
                    group.create_task(publish(js))
                await observed(lambda: sent > 50)
                assert leader.process is not None
                leader.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(leader.process.wait, 60) == 0
                leader.process = None
                enough = sent + 50
                await observed(lambda: sent > enough)
                is_over = True
            state = (await nc.jetstream(timeout=PATIENT).stream_info("MOVE")).state
            assert state.messages == before + sent

    run_within(240, scenario)
    for node in nodes.all:
        if node.process is None:
            node.start()
    nodes.settled()
    return float(refused)


def test_a_reader_stays_at_its_place_when_the_leader_changes(nodes: Nodes) -> None:
    """A push consumer whose client is on a node that leads neither before nor after."""

    async def scenario() -> None:
        leader, (one, _) = nodes.roles
        async with client(one) as nc:
            js = nc.jetstream(timeout=PATIENT)
            await led_by(leader, "READ", "read.>")
            config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
            reader = await js.subscribe("read.>", durable="r", config=config)
            await stored(js, "read.a", b"1")
            assert (await reader.next_msg(PATIENT)).data == b"1"
            assert leader.process is not None
            leader.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(leader.process.wait, 60) == 0
            leader.process = None
            await stored(js, "read.a", b"2")
            found = b""
            while found != b"2":  # the first may come again
                message = await reader.next_msg(PATIENT)
                found = message.data
            assert nc.is_connected

    run_within(240, scenario)


def test_nodes_that_are_stopped_together_wait_for_none_of_them_to_lead(
    durable: PostgresServer,
) -> None:
    with Nodes(durable.fresh_database(), 2) as nodes:
        run_within(240, lambda: _publish_through(nodes.all[0]))
        processes = [node.process for node in nodes.all]
        for process in processes:
            assert process is not None
            process.send_signal(signal.SIGTERM)

        assert [process and process.wait(60) for process in processes] == [0, 0]
        for node in nodes.all:
            assert "no other node leads" not in node.log(10**6)
            assert "ERROR" not in node.log(10**6)


async def _publish_through(node: JetgateServer) -> None:
    async with client(node) as nc:
        js = nc.jetstream(timeout=PATIENT)
        for name in ("ONE", "TWO", "THREE"):
            await js.add_stream(name=name, subjects=[name])
            assert (await js.publish(name, b"x")).seq == 1
