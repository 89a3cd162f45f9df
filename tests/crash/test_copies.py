"""kill -9 while streams are copied: afterwards every copy is complete, and has no duplicates."""

# Subject: mirrors and sources, crashes

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from nats.aio.msg import Msg

from tests.support.copies import Copies
from tests.support.jetgate import JetgateServer
from tests.support.pg import PostgresServer

ROUNDS = 4
BATCH = 1500


async def _publish_some(at: Copies, round_: int) -> None:
    """Publish to both origins; wait for only a third of the acknowledgements."""
    js = at.client.jetstream(timeout=30)
    pending = [
        await js.publish_async(at.subject(short, f"k{i % 7}"), b"%d.%d" % (round_, i))
        for i in range(BATCH)
        for short in ("S", "W")
    ]
    async with asyncio.timeout(60):
        await asyncio.wait(pending[: len(pending) // 3])


def _sources(messages: list[Msg]) -> list[int]:
    """Return the sequences in the origin, in the order of the copy."""
    headers = [message.headers or {} for message in messages]
    return [int(header["Nats-Stream-Source"].split(" ")[1]) for header in headers]


def _rows(messages: list[Msg]) -> list[tuple[int, str, bytes, object]]:
    return [(m.metadata.sequence.stream, m.subject, m.data, m.metadata.timestamp) for m in messages]


def test_a_standby_goes_on_copying() -> None:
    with ExitStack() as stack:
        dsn = stack.enter_context(PostgresServer(settings={"fsync": "on"})).fresh_database()
        first, second = stack.enter_context(JetgateServer(dsn=dsn)), JetgateServer(dsn=dsn)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        try:
            waiting = pool.submit(second.start)
            at = asyncio.run(_begin(first))
            first.kill()
            waiting.result()
            asyncio.run(_go_on(second, at))
        finally:
            second.stop()


async def _begin(server: JetgateServer) -> Copies:
    """Start copies; the caller kills the leader during copying."""
    at = await Copies.at(server)
    await at.stream("S")
    await at.stream("W", retention="workqueue")
    await at.stream("A", sources=[{"name": at.name("S")}, {"name": at.name("W")}])
    await _publish_some(at, 0)
    await at.client.close()
    return at


async def _go_on(server: JetgateServer, at: Copies) -> None:
    await at.reconnect(server)
    # It accepts clients before it leads; without a leader requests are refused after two seconds.
    await at.sees(lambda: at.answers("S"), within=60)
    lasts = {short: await _last(at, short) + BATCH for short in ("S", "W")}
    await _publish_some(at, 1)
    # All messages of the last round must be stored: an empty stream may be about to get more.
    for short, last in lasts.items():
        await at.reaches(short, last, within=60)
    await at.empties("W")
    await at.reaches("A", sum(lasts.values()), within=60)

    copies = await at.read("A")
    for short, last in lasts.items():
        mine = [m for m in copies if m.subject.startswith(at.name(short))]
        assert _sources(mine) == list(range(1, last + 1))
    await at.client.close()


async def _last(at: Copies, short: str) -> int:
    return int((await at.info(short))["state"]["last_seq"])


def test_copies_survive_kills() -> None:
    with JetgateServer() as server:
        asyncio.run(_survive(server))


async def _survive(server: JetgateServer) -> None:
    at = await Copies.at(server)
    await at.stream("S")
    await at.stream("W", retention="workqueue")
    await at.stream("M", mirror={"name": at.name("S")})
    await at.stream("A", sources=[{"name": at.name("S")}, {"name": at.name("W")}])
    for round_ in range(ROUNDS):
        await _publish_some(at, round_)
        if round_ % 3:
            server.kill_postgres()
        if round_ % 3 < 2:
            server.restart()
            await at.reconnect(server)
        await at.sees(lambda: at.answers("S"), within=60)

    state = (await at.info("S"))["state"]
    await at.reaches("M", state["last_seq"], within=60)
    await at.empties("W")
    last = (await at.info("W"))["state"]["last_seq"]
    await at.reaches("A", state["last_seq"] + last, within=60)

    origin, mirror, copies = [await at.read(short) for short in ("S", "M", "A")]
    assert _rows(mirror) == _rows(origin)
    for short, count in (("S", state["last_seq"]), ("W", last)):
        mine = [m for m in copies if m.subject.startswith(at.name(short))]
        assert _sources(mine) == list(range(1, count + 1))
    assert len(copies) == state["last_seq"] + last
    assert state["last_seq"] > ROUNDS * BATCH / 3
    await at.client.close()
