"""kill -9 while schedules come due: each is sent once, and a repeating one continues."""

# Subject: schedules, crashes

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from nats.errors import Error

from tests.support.copies import Copies
from tests.support.jetgate import JetgateServer

ONCE = 600
SPAN = 3.0
"""Seconds over which the schedules come due."""
KILLS = 2


async def _sent(at: Copies) -> tuple[int, int]:
    """Return how many schedules have been sent, and how often the repeating one.

    Returns (0, 0) without an answer.
    """
    with suppress(Error):
        everything = {"subjects_filter": at.subject("S", ">")}
        info = await at.ask(f"STREAM.INFO.{at.name('S')}", everything)
        counts = info.get("state", {}).get("subjects", {})
        return sum(".out." in subject for subject in counts), counts.get(at.subject("S", "tick"), 0)
    return 0, 0


def test_every_schedule_is_sent_once() -> None:
    with JetgateServer() as server:
        asyncio.run(_survive(server))


async def _schedule(at: Copies) -> None:
    """Create many schedules that come due one after the other, and one for every second."""
    js = at.client.jetstream(timeout=30)
    begin = datetime.now(UTC) + timedelta(seconds=1)
    pending = []
    for n in range(ONCE):
        time = begin + timedelta(seconds=SPAN * n / ONCE)
        headers = {
            "Nats-Schedule": f"@at {time.isoformat()}",
            "Nats-Schedule-Target": at.subject("S", f"out.{n}"),
        }
        subject = at.subject("S", f"once.{n}")
        pending.append(await js.publish_async(subject, b"x", headers=headers))
    headers = {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": at.subject("S", "tick")}
    pending.append(await js.publish_async(at.subject("S", "every"), b"x", headers=headers))
    async with asyncio.timeout(60):
        await asyncio.gather(*pending)


async def _survive(server: JetgateServer) -> None:
    at = await Copies.at(server)
    await at.stream("S", allow_msg_schedules=True)
    await _schedule(at)
    for kill in range(1, KILLS + 1):
        await at.sees(partial(_more, at, ONCE * kill // (KILLS + 2)), within=60)
        if kill == KILLS:
            server.kill_postgres()
        server.restart()
        await at.reconnect(server)
    await at.sees(lambda: _more(at, ONCE, ticks=KILLS + 2), within=60)

    messages = await at.read("S")
    sent = Counter(m.subject for m in messages if ".out." in m.subject)
    assert sent == {at.subject("S", f"out.{n}"): 1 for n in range(ONCE)}
    assert [
        m.subject for m in messages if ".tick" not in m.subject and ".out." not in m.subject
    ] == [at.subject("S", "every")], "what was sent once is scheduled no more"
    ticks = [(m.headers or {})["Nats-Schedule-Next"] for m in messages if ".tick" in m.subject]
    assert len(ticks) > 2
    assert all(one < next_ for one, next_ in pairwise(ticks)), ticks
    await at.client.close()


async def _more(at: Copies, wanted: int, *, ticks: int = 0) -> bool:
    once, ticked = await _sent(at)
    return once >= wanted and ticked >= ticks
