"""A leader that a node cannot reach is as none there, while it leads on for who can reach it."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cut_nodes import CutNodes
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.nodes import numbers
from tests.support.pg import PostgresServer
from tests.support.spread import PATIENT, UNAVAILABLE, At, at_each

EARLY_S, LATE_S = 1.5, 10.0
"""A publish without a leader is held for two seconds (`core.front.PATIENCE_S`)."""


@pytest.fixture(scope="module")
def nodes(durable: PostgresServer) -> Iterator[CutNodes]:
    with CutNodes(durable.fresh_database(), 2) as nodes:
        yield nodes


async def lost(node: JetgateServer) -> float:
    """Return once a node has no link, with a time when it may still have had it."""
    looks = [time.monotonic()]

    def look() -> bool:
        looks.append(time.monotonic())
        return not numbers(node)["jetgate_links"]

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
    assert done == {meanwhile}
    assert meanwhile.result().seq == 1
    for number in range(1, 4):
        assert (await one.js.publish(f"FAR-{name}.a", b"%d" % number)).seq == 1 + number
    await held
    assert EARLY_S < time.monotonic() - since < LATE_S
    await refused(one, f"OWN-{name}.a")
    assert (await two.js.publish(f"OWN-{name}.a", b"2")).seq == 2


@pytest.mark.parametrize("way", ["cut", "held"])
def test_publishes_are_refused_where_their_leader_is_not_reached_and_go_on_elsewhere(
    nodes: CutNodes, way: str
) -> None:
    async def scenario(one: At, two: At, other: At) -> None:
        far, own = f"FAR-{way}", f"OWN-{way}"
        await one.stream(far)
        await two.stream(own)
        assert await two.store(f"{far}.a", b"first") == 1

        try:
            (nodes.cut_link if way == "cut" else nodes.hold_link)(one.node, two.node)
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
            at_each(nodes) as (one, two),
            at_each(nodes) as (_, other),
        ):
            await scenario(one, two, other)

    asyncio.run(within_time())
    nodes.settled()
