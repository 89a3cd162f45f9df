"""The side of a bridge where an API is offered, and the account of this server as such a side."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from core.client.client import Client
from core.pubsub.account import Account, Session

Call = Callable[[bytes, bytes, bytes, bytes], None]
"""Called with subject, reply, headers and payload."""

Row = tuple[bytes, bytes, bytes, bytes]
"""Subject, reply, headers and payload of a message."""

STALL_S = 0.004


class Here(Protocol):
    """Where somebody asks."""

    on_interest: list[Callable[[bytes], None]]
    """Called with the subject of a subscription that came or went."""

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Have `call` called with what is sent to a filter; the result ends that."""
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Say whether somebody listens on a subject."""
        ...

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send a message."""
        ...

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Send messages that show their own subjects to `to`; whether somebody still listens."""
        ...

    def relieve(self, client: Client) -> None:
        """Have the other side read no more while this one has enough to do."""
        ...


class AccountHere:
    """An account of this server."""

    def __init__(self, account: Account) -> None:
        self.on_interest = account.on_interest
        self.has_interest = account.has_interest
        self.publish = account.publish
        self._account = account
        self._held: Client | None = None

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Take what anybody here sends to a filter."""

        def take(
            session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            call(subject, reply, headers, payload)

        service = self._account.subscribe(subject, take)
        return lambda: self._account.unsubscribe(service)

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Put messages into the outputs of those who listen."""
        account = self._account
        route, deliver = account.route(to), account.deliver
        for subject, reply, headers, payload in rows:
            if route.stale:
                route = account.route(to)
            deliver(route, None, subject, reply, headers, payload, shown=subject != to)
        account.turn.arm()
        return route.interest

    def relieve(self, client: Client) -> None:
        """Stop reading while this server has enough to do, as its own clients do."""
        hub = self._account.hub
        if self._held is not None:
            return
        if hub.overloaded:
            hub.wait(self)
        elif hub.crowded:
            hub.crowded = False
            asyncio.get_running_loop().call_later(STALL_S, self.resume)
        else:
            return
        self._held = client
        client.pause_reading()

    def resume(self) -> None:
        """Read again."""
        held, self._held = self._held, None
        if held is not None:
            held.resume_reading()
