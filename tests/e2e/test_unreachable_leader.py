"""A leader that a node cannot reach is as none there, while it leads on for who can reach it.

One that reaches nobody is replaced, and does no harm when it is back.
"""

# Subject: several nodes

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.node_clients import PATIENT, UNAVAILABLE, At, at_each
from tests.support.nodes import numbers
from tests.support.pg import PostgresServer
from tests.support.proxied_nodes import ProxiedNodes
from tests.support.sql import on

FLAGS = ("--user", "app", "--pass", "a", "--system-user", "sys", "--system-pass", "s")
WHO = {"user": "app", "password": "a"}
INBOX = "answers"
NOT_MEMBER = 10044
SILENT = "update jetgate_store.node set seen = seen - interval '1 hour' where node = $1 returning 1"
EARLY_S, LATE_S = 1.5, 10.0
"""A publish without a leader is held for two seconds (`core.node.publish_gate.HOLD_S`)."""


@pytest.fixture(scope="module")
def nodes(durable: PostgresServer) -> Iterator[ProxiedNodes]:
    with ProxiedNodes(durable.fresh_database(), 3, *FLAGS) as nodes:
        yield nodes


async def lost(node: JetgateServer) -> float:
    """Return once a node has lost a link, with a time when it may still have had it."""
    looks = [time.monotonic()]

    def look() -> bool:
        looks.append(time.monotonic())
        return numbers(node)["jetgate_links"] < 2

    await observed(look, within=60, every=0.001)
    return looks[-2]


async def refused(at: At, subject: str) -> None:
    """Publish what is refused since there is no leader."""
    answer = await at.client.request(subject, b"refused", timeout=PATIENT)
    error: dict[str, Any] = json.loads(answer.data)["error"]
    assert (error["code"], error["err_code"]) == (503, UNAVAILABLE)


async def separated(one: At, two: At, other: At, name: str, since: float) -> None:
    """What clients of two nodes see that do not reach each other: `other` is one of the second."""
    held = asyncio.create_task(refused(two, f"FAR-{name}.a"))
    await asyncio.sleep(0)  # it is sent first
    meanwhile = asyncio.create_task(other.js.publish(f"OWN-{name}.a", b"1", timeout=PATIENT))
    done, _ = await asyncio.wait({held, meanwhile}, return_when=asyncio.FIRST_COMPLETED)
    is_late = time.monotonic() - since > EARLY_S  # what is held may be refused by now
    assert done == {meanwhile} or is_late
    assert (await meanwhile).seq == 1
    for number in range(1, 4):
        assert (await one.js.publish(f"FAR-{name}.a", b"%d" % number)).seq == 1 + number
    await held
    assert EARLY_S < time.monotonic() - since < LATE_S
    await refused(one, f"OWN-{name}.a")
    assert (await two.js.publish(f"OWN-{name}.a", b"2")).seq == 2


@pytest.mark.parametrize("way", ["cut", pytest.param("held", marks=pytest.mark.thorough)])
def test_publishes_are_refused_where_their_leader_is_not_reached_and_go_on_elsewhere(
    nodes: ProxiedNodes, way: str
) -> None:
    async def scenario(one: At, two: At, other: At) -> None:
        far, own = f"FAR-{way}", f"OWN-{way}"
        await one.stream(far)
        await two.stream(own)
        await one.keep(far)  # else they may move meanwhile to the third node, which leads none
        await two.keep(own)
        assert await two.store(f"{far}.a", b"first") == 1

        try:
            (nodes.break_link if way == "cut" else nodes.hold_link)(one.node, two.node)
            await separated(one, two, other, way, await lost(two.node))
        finally:
            nodes.heal()

        assert await two.store(f"{far}.a", b"last") == 5
        assert [await two.leader(far), await one.leader(own)] == [one.name, two.name]
        stored = [(await two.js.get_msg(far, seq)).data for seq in range(1, 6)]
        assert stored == [b"first", b"1", b"2", b"3", b"last"]

    async def within_time() -> None:
        async with (
            asyncio.timeout(120),
            at_each(nodes, **WHO) as (one, two, _),
            at_each(nodes, **WHO) as (_, other, _),
        ):
            await scenario(one, two, other)

    asyncio.run(within_time())
    nodes.settled()


async def is_removed(operator: Client, name: str) -> bool:
    """Take a node out that is gone; whether it was out already."""
    asked = json.dumps({"peer": name}).encode()
    answer = await operator.request("$JS.API.SERVER.REMOVE", asked, timeout=PATIENT)
    error = json.loads(answer.data).get("error", {})
    assert error.get("err_code", NOT_MEMBER) == NOT_MEMBER, error
    return bool(error)


async def isolate(nodes: ProxiedNodes, one: At, two: At, three: At) -> None:
    """Cut the leader of BACK off from everybody; publish to it and through who leads then."""
    for other in (two, three):
        nodes.break_link(one.node, other.node)
    nodes.break_database(one.node)
    for other in (two, three):  # what it sends on to who is not there is never answered
        await lost(other.node)
    for _ in range(3):
        await one.client.publish("BACK.a", b"cut off", reply=f"{INBOX}.1")
    await one.client.flush(timeout=int(PATIENT))

    await observed(lambda: is_led_by(two, "BACK", (two, three)), within=60)
    assert (await two.done("STREAM.MSG.DELETE.BACK", {"seq": 3}))["success"]
    for number in range(6, 9):
        assert await three.store("BACK.a", b"%d" % number) == number
    reader = await two.js.pull_subscribe_bind("C", "BACK")
    for message in await reader.fetch(7, timeout=PATIENT):
        await two.acknowledge(message)


async def check_back(at: At) -> None:
    """What a node shows of BACK, through whoever leads it."""
    info = await at.info("BACK")
    assert (info["state"]["messages"], info["state"]["num_deleted"]) == (8, 1)
    for seq in (1, 2, *range(4, 10)):
        got = await at.js.get_msg("BACK", seq, direct=True)
        assert got.data == b"%d" % seq
    with pytest.raises(NotFoundError):
        await at.js.get_msg("BACK", 3, direct=True)
    state = await at.done("CONSUMER.INFO.BACK.C")
    assert (state["ack_floor"]["stream_seq"], state["num_ack_pending"]) == (8, 0)


def test_a_leader_that_was_cut_off_and_removed_does_no_harm_when_it_is_back(
    nodes: ProxiedNodes,
) -> None:
    async def scenario(one: At, two: At, three: At, operator: Client) -> None:
        await one.stream("BACK", allow_direct=True)
        config = {"durable_name": "C", "ack_policy": "explicit"}
        await two.done("CONSUMER.CREATE.BACK.C", {"stream_name": "BACK", "config": config})
        for number in range(1, 6):
            assert await two.store("BACK.a", b"%d" % number) == number
        heard = await one.client.subscribe(f"{INBOX}.>")
        await isolate(nodes, one, two, three)
        await asyncio.to_thread(on, nodes.dsn, SILENT, arguments=(one.name,))
        await observed(lambda: is_removed(operator, one.name), within=60)
        three.node.kill()
        nodes.heal()

        await observed(lambda: is_back(one, two), within=60)
        assert await one.store("BACK.a", b"9") == 9
        for at in (one, two):
            await check_back(at)
        while heard.pending_msgs:  # what was published meanwhile is refused, or nobody answers
            assert json.loads((await heard.next_msg()).data)["error"]["err_code"] == UNAVAILABLE

    async def within_time() -> None:
        async with asyncio.timeout(120), at_each(nodes, **WHO) as (one, two, three):
            address = "nats://{}:{}".format(*two.node.address)
            async with await nats.connect(address, user="sys", password="s") as operator:
                await scenario(one, two, three, operator)

    asyncio.run(within_time())
    nodes.all[2].start()
    nodes.settled()


async def is_led_by(at: At, name: str, leaders: tuple[At, ...]) -> bool:
    return await at.leader(name) in {leader.name for leader in leaders}


async def is_back(one: At, other: At) -> bool:
    """Whether both say that the same node leads the stream."""
    with contextlib.suppress(AssertionError):
        return await one.leader("BACK") == await other.leader("BACK")
    return False
