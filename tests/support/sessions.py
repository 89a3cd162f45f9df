"""Fakes for tests of `core.pubsub` without sockets: clock, event-loop tick, session, transport."""

import asyncio
from collections.abc import Callable
from typing import Any

from core.auth.grant import Guard
from core.protocol.publish_hold import HoldRule
from core.pubsub.account import Account, Subscription
from core.pubsub.receivers import Session
from core.pubsub.server import Hub
from core.runtime.loop_tick import LoopTick
from core.units import Nanos


class ManualClock:
    """A clock that a test advances; its times are in nanoseconds."""

    def __init__(self) -> None:
        self.time = 1_700_000_000_000_000_000

    def now(self) -> Nanos:
        return Nanos(self.time)

    def monotonic(self) -> Nanos:
        return Nanos(self.time)

    def advance(self, seconds: float) -> None:
        self.time += int(seconds * 1_000_000_000)


class IdleTick(LoopTick):
    """A `LoopTick` (callbacks at the end of an event-loop tick) that only a test runs."""

    def arm(self) -> None:
        self.armed = True


class Only(HoldRule):
    """A `HoldRule` that holds publishes to some exact subjects, without a limit in bytes."""

    def __init__(self, *subjects: bytes) -> None:
        self._subjects = subjects

    def __call__(self, subject: bytes) -> bool:
        return subject in self._subjects


class NotedAcks:
    """A receiver of acknowledgements that appends each to a list, from batches or single."""

    def __init__(self, taken: list[tuple[Any, ...]]) -> None:
        self._taken = taken

    def handle(self, parts: list[bytes], session: Session | None, *message: bytes) -> None:
        self._taken.append((*parts, session, *message))

    def handle_row(
        self, parted: list[list[bytes]], session: Session | None, payloads: list[bytes]
    ) -> None:
        for parts, payload in zip(parted, payloads, strict=True):
            self.handle(parts, session, b"", b"", payload)


class ListSession:
    """A client connection without a socket; its output stays in `out` until `flush` or `drain`."""

    def __init__(self, *, headers: bool = True, echo: bool = True, client_id: int = 1) -> None:
        self.out: list[bytes] = []
        self.blocked = False
        self.closed = False
        self.headers = headers
        self.echo = echo
        self.client_id = client_id
        self.user = ""
        self.guard: Guard | None = None
        self.on_writable: list[Callable[[], None]] = []
        self.forgotten: list[Subscription] = []

    def flush(self) -> None:
        self.out.clear()

    def forget(self, subscription: Subscription) -> None:
        self.forgotten.append(subscription)

    def drain(self) -> bytes:
        """Return the collected output and clear it."""
        data = b"".join(self.out)
        self.out.clear()
        return data


class Socket(asyncio.Transport):
    """An asyncio transport without a socket.

    Attributes:
        written: The bytes written since the last `drain`.
        pending: Size of the write buffer in bytes.
        is_stuck: True simulates a peer that stopped reading: writes then increase `pending`.
        reading: False after `pause_reading`.
        writes: Number of calls of `write`.
    """

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""
        self.pending = 0
        self.is_stuck = False
        self.reading = True
        self.is_closed = False
        self.writes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self.written += bytes(data)
        if self.is_stuck:
            self.pending += len(data)

    def get_write_buffer_size(self) -> int:
        return self.pending

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def drain(self) -> bytes:
        data, self.written = self.written, b""
        return data


def idle_hub() -> Hub:
    """Return a hub with a `ManualClock`; a test runs its `LoopTick` itself."""
    return Hub(IdleTick(), ManualClock())


def listen(
    account: Account,
    session: ListSession,
    subject: bytes,
    sid: bytes = b"1",
    queue: bytes = b"",
) -> Subscription:
    """Add a subscription of a session to an account, and return it."""
    subscription = Subscription(session, subject, queue, sid)
    account.add(subscription)
    return subscription
