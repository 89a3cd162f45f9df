"""What clients of other nodes see of one that stands still, while it still counts as there."""

# Subject: several nodes

import asyncio
import signal
from itertools import count
from typing import Any

import pytest

from tests.support.best import best
from tests.support.eventually import observed
from tests.support.node_clients import At, at_each, run
from tests.support.nodes import Nodes, send

WAITED_S = 0.25
"""How long a create waits for linked nodes at most (`core.route.versions.WITHIN_S`)."""
ASKED_S = 2.0
"""How long who leads a stream has to tell of it (`core.api.peer_requests`)."""
AT_ONCE_S = 2.0


def test_a_create_waits_a_quarter_of_a_second_at_most_for_a_node_that_stands_still(
    nodes: Nodes,
) -> None:
    numbers = count()
    taken = best(3, AT_ONCE_S, lambda: _created(nodes, f"NEW-{next(numbers)}"))

    assert taken < AT_ONCE_S


def _created(nodes: Nodes, name: str) -> float:
    """Seconds that a create takes while a node stands still; all know of the stream afterwards."""
    taken = 0.0

    async def scenario(*each: At) -> None:
        nonlocal taken
        loop = asyncio.get_running_loop()
        # Without the leader of the stream directory there would be no JetStream.
        leader = nodes.leader
        still = next(at for at in each if at.node is not leader)
        one, two = (at for at in each if at is not still)
        try:
            send(still.node, signal.SIGSTOP)
            began = loop.time()
            config = {"name": name, "subjects": [f"{name}.>"]}
            created = await one.ask(f"$JS.API.STREAM.CREATE.{name}", config)
            taken = loop.time() - began
            found = await two.ask(f"$JS.API.STREAM.INFO.{name}")
        finally:
            send(still.node, signal.SIGCONT)
        assert created["did_create"]
        assert found["config"] == created["config"]
        assert found["cluster"]["leader"] == one.name
        assert taken > WAITED_S * 0.9

        async with at_each(nodes) as again:  # it may close the connections that it had
            told = await again[nodes.all.index(still.node)].info(name)
        assert (told["config"], told["created"]) == (created["config"], created["created"])

    run(nodes, scenario)
    return taken


def listed(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The names of the streams in a list, and of those that it is known to lack."""
    assert answer["total"] == len(answer["streams"] or ()) + len(answer.get("missing", ()))
    found = [str(each["config"]["name"]) for each in answer["streams"] or ()]
    return found, list(answer.get("missing", ()))


@pytest.mark.thorough
def test_a_list_names_the_streams_of_a_leader_that_does_not_answer(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        loop = asyncio.get_running_loop()
        names = {at: [f"{at.name}-{number}" for number in range(2)] for at in (one, two, three)}
        for at, some in names.items():
            for name in some:
                await at.stream(name)
        mine = sorted(name for some in names.values() for name in some)

        async def ask(at: At) -> tuple[list[str], list[str]]:
            found, missing = listed(await at.ask("$JS.API.STREAM.LIST"))
            assert sorted([*found, *missing]) == everything
            return found, missing

        everything = sorted({*mine, *(await one.ask("$JS.API.STREAM.NAMES"))["streams"]})

        async def is_known() -> bool:  # a node that is slow to tell is as one that does not
            return await ask(three) == (everything, [])

        await observed(is_known)
        still = [name for name in everything if await two.leader(name) == one.name]
        assert {*names[one]} <= {*still}
        send(one.node, signal.SIGSTOP)
        began = loop.time()
        first = await asyncio.gather(ask(two), ask(three))
        assert [sorted(missing) for _, missing in first] == [still, still]
        assert loop.time() - began > ASKED_S * 0.9

        async def is_whole() -> bool:  # another node leads them
            return not (await ask(three))[1]

        await observed(is_whole, within=60)
        assert {await two.leader(name) for name in still} <= {two.name, three.name}

    run(nodes, scenario)
