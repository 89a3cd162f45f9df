"""Publishes that are not one by one, pipelined or in batches, through nodes that do not lead."""

# Subject: several nodes

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error

from tests.support.eventually import observed
from tests.support.node_clients import PATIENT, UNAVAILABLE, At, at_each
from tests.support.nodes import Nodes

INCOMPLETE = 10176
LEAST = 5000
AT_ONCE = 200
TRIES = 5
LATE_MS = 400
"""A node whose loop stood still for so long may have been given up, or give its clients up."""


class Pipeline:
    """Publishes to a subject until it is told to stop, and at least so many.

    It waits for its node to have read what it sends, never for an acknowledgement.

    Attributes:
        sent: how many messages.
        acks: what answered, in the order in which it came: the number of the message, and the body.
    """

    def __init__(self, at: At, subject: str) -> None:
        self._at, self._subject = at, subject
        self._inbox = at.client.new_inbox()
        self.sent = 0
        self.acks: list[tuple[int, dict[str, Any]]] = []
        self.is_over = False

    async def publish(self) -> None:
        """Publish; return when everything is answered."""
        client = self._at.client
        await client.subscribe(f"{self._inbox}.*", cb=self._note)
        while self.sent < LEAST or not self.is_over:
            for _ in range(AT_ONCE):
                reply = f"{self._inbox}.{self.sent}"
                await client.publish(self._subject, b"%d" % self.sent, reply=reply)
                self.sent += 1
            await client.flush(timeout=int(PATIENT))
        await observed(lambda: len(self.acks) >= self.sent, within=20)

    async def _note(self, message: Msg) -> None:
        number = int(message.subject.rpartition(".")[2])
        body = json.loads(message.data) if message.data else dict(message.headers or {})
        self.acks.append((number, body))

    def sequences(self) -> list[int]:
        """What was told: each message is stored once, and behind the one before it."""
        refused = [(number, ack) for number, ack in self.acks if not ack.get("seq")]
        assert refused == []
        assert not any("duplicate" in ack for _, ack in self.acks)
        assert [number for number, _ in self.acks] == [*range(self.sent)]
        found = [int(ack["seq"]) for _, ack in self.acks]
        assert found == sorted(set(found))
        return found


async def stored(at: At, stream: str) -> list[tuple[str, int]]:
    """Subject and body of all messages, in their order."""
    state = (await at.info(stream))["state"]
    assert (state["first_seq"], state["messages"]) == (1, state["last_seq"])
    found: list[tuple[str, int]] = []

    async def take(message: Msg) -> None:
        found.append((message.subject, int(message.data)))

    reader = await at.js.subscribe(f"{stream}.>", stream=stream, ordered_consumer=True, cb=take)
    await observed(lambda: len(found) == state["messages"], within=60)
    await reader.unsubscribe()
    return found


def stalls(nodes: Nodes) -> int:
    """How often a node has noticed that it stood still."""
    found = [re.findall(r"held up for (\d+) ms", node.log(1 << 20)) for node in nodes.all]
    return sum(int(each) >= LATE_MS for some in found for each in some)


async def moved_along(name: str, one: At, two: At, three: At) -> None:
    """Publish through the leader and through another node while a stream moves three times."""
    await one.stream(name)
    pipelines = {f"{name}.{at.name}": Pipeline(at, f"{name}.{at.name}") for at in (one, three)}

    async def move() -> None:
        for to in (two, three, one):
            before = {pipeline: len(pipeline.acks) for pipeline in pipelines.values()}
            await two.move(name, to.name)
            await observed(lambda: all(len(p.acks) > n for p, n in before.items()))  # noqa: B023
        for pipeline in pipelines.values():
            pipeline.is_over = True

    await asyncio.gather(move(), *(each.publish() for each in pipelines.values()))
    told = dict[int, tuple[str, int]]()
    for subject, pipeline in pipelines.items():
        told |= {seq: (subject, n) for n, seq in enumerate(pipeline.sequences())}
    assert sorted(told) == [*range(1, sum(each.sent for each in pipelines.values()) + 1)]
    assert await stored(two, name) == [told[seq] for seq in sorted(told)]


def run(nodes: Nodes, scenario: Callable[[str, At, At, At], Awaitable[None]]) -> None:
    """Play a scenario, with a word for names that no other has; again, where nodes were late."""

    async def within_time(word: str) -> None:
        async with asyncio.timeout(90), at_each(nodes) as each:
            await scenario(word, *each)

    for attempt in range(TRIES):
        before = stalls(nodes)
        try:
            asyncio.run(within_time(str(attempt)))
        except (AssertionError, Error, TimeoutError):
            if attempt + 1 == TRIES or stalls(nodes) == before:
                raise
            nodes.settled()
        else:
            return


def test_pipelined_publishes_through_any_node_keep_their_order_while_their_stream_moves(
    nodes: Nodes,
) -> None:
    async def scenario(word: str, one: At, two: At, three: At) -> None:
        await moved_along(f"PIPE{word}", one, two, three)

    run(nodes, scenario)


def batch_headers(batch: str, place: int, count: int) -> dict[str, str]:
    """What makes a message the one at that place, from 1 on, of a batch of so many."""
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)}
    return {**headers, "Nats-Batch-Commit": "1"} if place == count else headers


async def batched(at: At, subject: str, batch: str, count: int, first: int = 1) -> dict[str, Any]:
    """Publish a batch at once, from one of its places on; what answers its commit."""
    for place in range(first, count):
        headers = batch_headers(batch, place, count)
        await at.client.publish(subject, f"{batch} {place}".encode(), headers=headers)
    body, headers = f"{batch} {count}".encode(), batch_headers(batch, count, count)
    answer = await at.client.request(subject, body, timeout=20, headers=headers)
    return dict(json.loads(answer.data))


async def texts(at: At, stream: str) -> list[str]:
    """The bodies of all messages."""
    last = (await at.info(stream))["state"]["last_seq"]
    return [((await at.js.get_msg(stream, seq)).data or b"").decode() for seq in range(1, last + 1)]


def whole(batch: str, count: int) -> list[str]:
    return [f"{batch} {place}" for place in range(1, count + 1)]


def test_batches_through_a_node_that_does_not_lead_are_stored_whole_and_once(nodes: Nodes) -> None:
    async def scenario(word: str, one: At, two: At, three: At) -> None:
        atomic, fast = f"ATOMIC{word}", f"FAST{word}"
        await one.stream(atomic, allow_atomic=True)
        for number, at in enumerate((two, three), 1):
            ack = await batched(at, f"{atomic}.a", f"b{number}", 3)
            told = {"stream": atomic, "seq": 3 * number, "batch": f"b{number}", "count": 3}
            assert ack == told
        assert await texts(three, atomic) == whole("b1", 3) + whole("b2", 3)

        await one.stream(fast, allow_batched=True)
        inbox = two.client.new_inbox()
        heard = await two.client.subscribe(f"{inbox}.>")
        for place in range(1, 31):
            what = 2 if place == 30 else 1 if place > 1 else 0
            reply = f"{inbox}.f.10.fail.{place}.{what}.$FI"
            await two.client.publish(f"{fast}.a", f"f {place}".encode(), reply=reply)
        told = {}
        while "count" not in told:
            told = json.loads((await heard.next_msg(PATIENT)).data)
            assert "error" not in told, told
        assert told == {"stream": fast, "seq": 30, "batch": "f", "count": 30}
        assert await texts(three, fast) == whole("f", 30)

    run(nodes, scenario)


def test_a_batch_whose_leader_moves_before_its_commit_is_refused_and_nothing_of_it_stored(
    nodes: Nodes,
) -> None:
    async def scenario(word: str, one: At, two: At, three: At) -> None:
        name = f"BEGUN{word}"
        await one.stream(name, allow_atomic=True)
        for place in (1, 2):
            body, headers = f"open {place}".encode(), batch_headers("open", place, 3)
            begun = await three.client.request(f"{name}.a", body, timeout=PATIENT, headers=headers)
            assert begun.data == b""  # the leader has it
        await two.move(name, two.name)
        refused = await batched(three, f"{name}.a", "open", 3, first=3)
        assert refused["error"]["err_code"] == INCOMPLETE
        assert (await one.info(name))["state"]["messages"] == 0
        assert (await batched(three, f"{name}.a", "next", 3))["seq"] == 3
        assert await texts(one, name) == whole("next", 3)

    run(nodes, scenario)


def test_of_batches_that_are_under_way_while_their_stream_moves_none_is_stored_in_part(
    nodes: Nodes,
) -> None:
    async def scenario(word: str, one: At, two: At, three: At) -> None:
        name = f"MOVES{word}"
        await one.stream(name, allow_atomic=True)
        answers: dict[str, dict[str, Any]] = {}
        is_over = False

        async def publish(at: At, who: str) -> None:
            while not is_over:
                batch = f"{who}-{len(answers)}"
                answers[batch] = await batched(at, f"{name}.a", batch, 5)

        async def move() -> None:
            nonlocal is_over
            for to in (two, three, one):
                enough = len(answers) + 10
                await two.move(name, to.name)
                await observed(lambda: len(answers) > enough)  # noqa: B023
            is_over = True

        await asyncio.gather(move(), publish(one, "x"), publish(three, "y"))
        kept = {ack["seq"]: batch for batch, ack in answers.items() if "error" not in ack}
        refused = {ack["error"]["err_code"] for ack in answers.values() if "error" in ack}
        assert refused <= {INCOMPLETE, UNAVAILABLE}
        assert sorted(kept) == [*range(5, 5 * len(kept) + 1, 5)]
        stored = [text for seq in sorted(kept) for text in whole(kept[seq], 5)]
        assert await texts(two, name) == stored

    run(nodes, scenario)
