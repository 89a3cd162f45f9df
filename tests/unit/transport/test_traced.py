"""A traced connection does the same as another one, whatever its bytes are cut into."""

# Subject: protocol, protocol traces

import asyncio
import random

import pytest

from core.pubsub.server import Hub
from core.pubsub.trace_log import TraceLog
from core.transport.session import ClientSession
from tests.support.gathering import reads_are_worth_gathering  # noqa: F401  (a fixture)
from tests.support.sessions import IdleTick, ManualClock, Socket
from tests.unit.transport.test_session import CONNECT

OPERATIONS = (
    b"SUB a.* 1\r\n",
    b"SUB a.b q 2\r\n",
    b"UNSUB 1 7\r\n",
    b"UNSUB 2\r\n",
    b"PUB a.b 3\r\nabc\r\n",
    b"PUB a.c  r 0\r\n\r\n",
    b"PUB a.c 10\r\nMSG x 1 2\r\r\n" * 12,
    b"HPUB a.b 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    b"PING\r\n",
    b"pong\r\n",
    b"PUB nobody a.r 1\r\nx\r\n",
    b'CONNECT {"verbose":true,"pedantic":false,"headers":true,"no_responders":true}\r\n',
)
LAST = (b"", b"PUB a.b 99999999\r\n", b"NONSENSE\r\n", b"HPUB a.b 9 2\r\n", b"PUB a.b 1\r\nxyz\r\n")


class World:
    """A hub with one client, traced or not."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.hub = Hub(IdleTick(), ManualClock())
        self.session = ClientSession(self.hub)
        self.socket = Socket()

    def trace(self, wanted: bool) -> None:
        self.hub.use_trace_log(TraceLog(write=self.lines.append) if wanted else None)

    def read(self, data: bytes) -> None:
        """Serve what was read, and write."""
        self.session.data_received(data)
        self.hub.loop_tick.run()

    def seen(self) -> tuple[bytes, bool, tuple[int, ...]]:
        """What a client sees, without INFO, and what monitoring does."""
        traffic = self.session.count()
        counts: tuple[int, ...] = (traffic.out_msgs, traffic.out_bytes)
        if not self.socket.is_closed:  # what came with an error in the same read is not counted
            counts += (traffic.in_msgs, traffic.in_bytes)
        return self.socket.written.partition(b"\r\n")[2], self.socket.is_closed, counts


@pytest.mark.parametrize("seed", range(40))
def test_a_traced_session_answers_as_one_that_is_not_traced(seed: int) -> None:
    plain, traced, switched = asyncio.run(played(random.Random(seed), LAST[seed % len(LAST)]))

    assert plain.seen() == traced.seen() == switched.seen()
    assert not plain.lines
    assert len(traced.lines) > len(switched.lines) > 0


async def played(chance: random.Random, last: bytes) -> tuple[World, World, World]:
    """The same bytes to three of them: untraced, traced, and one that is switched all the time."""
    said = CONNECT + b"".join(chance.choices(OPERATIONS, k=30)) + last
    worlds = (World(), World(), World())
    _, traced, switched = worlds
    traced.trace(True)
    for world in worlds:
        world.session.connection_made(world.socket)
    while said:
        size = chance.choice((1, 5, 40, 300))
        for world in worlds:
            world.read(said[:size])
        said = said[size:]
        switched.trace(chance.random() < 0.5)
    for world in worlds:
        world.session.connection_lost(None)
    return worlds
