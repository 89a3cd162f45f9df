"""Streams with tags are led by nodes that have them, as long as there is one."""

# Subject: placement

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress

from tests.support.commands import jetgate
from tests.support.eventually import observed
from tests.support.node_clients import At, at_each
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

SSD = {"tags": ["ssd"]}
_UNANSWERED = 2.0


async def is_led(at: At, name: str, by: Collection[str]) -> None:
    """Return when one of some nodes leads a stream.

    What was sent on to a node that is killed then is never answered, so it is asked again.
    """

    async def look() -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_UNANSWERED):
                return await at.leader(name) in by
        return False

    await observed(look, within=60)


def test_streams_with_tags_go_where_nodes_have_them_and_elsewhere_when_no_node_has(
    durable: PostgresServer,
) -> None:
    async def scenario(nodes: Nodes) -> None:
        async with asyncio.timeout(150), at_each(nodes) as (one, two, three):
            tagged = {one.name, two.name}
            await three.stream("FAST", placement=SSD)
            await is_led(one, "FAST", tagged)
            await three.stream("FREE")
            await three.js.publish("FAST.1", b"kept")

            leader = await three.leader("FAST")
            await three.done("STREAM.LEADER.STEPDOWN.FAST", {"placement": SSD})
            await is_led(three, "FAST", tagged - {leader})
            assert await one.leader("FREE") == three.name

            told = json.loads(jetgate("cluster", "--json", "--dsn", nodes.dsn).stdout)
            shown = {each["node"]: each["tags"] for each in told["nodes"]}
            assert shown == {one.name: ["ssd", "eu"], two.name: ["ssd", "eu"], three.name: []}

            for at in (one, two):
                at.node.kill()
            await is_led(three, "FAST", {three.name})
            assert (await three.js.get_msg("FAST", 1)).data == b"kept"
            await asyncio.to_thread(two.node.start)
            await observed(lambda: _is_led_elsewhere(three, "FAST"), within=60)
            await three.js.publish("FAST.2", b"too")
            assert await three.leader("FREE") == three.name

    flags = [("SSD", " eu "), ("ssd", "eu")]
    with Nodes(durable.fresh_database(), 3, tags=flags) as nodes:
        asyncio.run(scenario(nodes))


async def _is_led_elsewhere(at: At, name: str) -> bool:
    return await at.leader(name) != at.name
