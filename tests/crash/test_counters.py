"""kill -9 while increments are in flight: each counts once, in the stream and in its copy."""

# Subject: counters, crashes

import asyncio
import json

from nats.aio.msg import Msg

from tests.support.copies import Copies
from tests.support.jetgate import JetgateServer

ROUNDS = 2
BATCH = 900
TAILS = ("a", "b", "c")


async def _count(at: Copies, numbers: range, awaited: int) -> None:
    """Add each number once, with its own message id; wait for some of the acknowledgements."""
    js = at.client.jetstream(timeout=30)
    pending = []
    for n in numbers:
        headers = {"Nats-Incr": str(n), "Nats-Msg-Id": str(n)}
        subject = at.subject("C", TAILS[n % len(TAILS)])
        pending.append(await js.publish_async(subject, b"", headers=headers))
    async with asyncio.timeout(60):
        await asyncio.gather(*pending[:awaited])


def _chain(messages: list[Msg]) -> dict[str, int]:
    """Return the total of each subject; check that each message adds its increment to the last."""
    totals: dict[str, int] = {}
    for message in messages:
        total = totals.get(message.subject, 0) + int((message.headers or {})["Nats-Incr"])
        assert json.loads(message.data) == {"val": str(total)}, message
        totals[message.subject] = total
    return totals


def test_every_increment_counts_once() -> None:
    with JetgateServer() as server:
        asyncio.run(_survive(server))


async def _survive(server: JetgateServer) -> None:
    at = await Copies.at(server)
    await at.stream("C", allow_msg_counter=True, duplicate_window=600_000_000_000)
    await at.stream("A", allow_msg_counter=True, sources=[{"name": at.name("C")}])
    for round_ in range(ROUNDS):
        numbers = range(round_ * BATCH, (round_ + 1) * BATCH)
        await _count(at, numbers, BATCH // 3)
        if round_ == 1:
            server.kill_postgres()
        server.restart()
        await at.reconnect(server)
        await at.sees(lambda: at.answers("C"), within=60)
        await _count(at, numbers, BATCH)  # Known ids are not counted again.
    wanted = {
        at.subject("C", tail): sum(range(place, ROUNDS * BATCH, len(TAILS)))
        for place, tail in enumerate(TAILS)
    }

    await at.reaches("A", ROUNDS * BATCH, within=60)
    assert _chain(await at.read("C")) == wanted
    assert _chain(await at.read("A")) == wanted
    await at.client.close()
