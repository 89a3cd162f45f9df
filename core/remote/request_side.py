"""The side of a bridge where API requests come from, as an interface; an account implements it."""

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
"""Pause, in seconds, before reading from the JetStream server is tried again after an overload."""


class RequestSide(Protocol):
    """The NATS system whose clients send JetStream API requests to another system, over a bridge.

    They get responses and deliveries from that other system.

    Implemented by an account of this server (`AccountSide`) and by a leaf node connection
    (`core.remote.leaf.Leaf`).
    """

    on_interest: list[Callable[[bytes], None]]
    """Called with the subject of a subscription that begins or ends in the requesting system."""

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Subscribe `call` to a subject filter in the requesting system.

        Return a function that unsubscribes.
        """
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Return whether clients of the requesting system subscribe to a subject."""
        ...

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message in the requesting system."""
        ...

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Deliver messages to the subscribers of `to` in the requesting system.

        The messages keep their own subjects. Return False if there are no subscribers.
        """
        ...

    def throttle(self, client: Client) -> None:
        """Pause reading from `client` while the requesting system accepts no more messages.

        `client` is the connection to the system with the JetStream server.
        """
        ...


class AccountSide:
    """An account of this server whose clients send API requests to another NATS system."""

    def __init__(self, account: Account) -> None:
        self.on_interest = account.on_interest
        self.has_interest = account.has_interest
        self.publish = account.publish
        self._account = account
        self._held: Client | None = None

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Subscribe `call` to a subject filter in the account.

        Return a function that unsubscribes.
        """

        def on_message(
            session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            call(subject, reply, headers, payload)

        service = self._account.subscribe(subject, on_message, local_only=True)
        return lambda: self._account.unsubscribe(service)

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Deliver messages, which keep their own subjects, to the subscribers of `to`.

        Return False if there are none.
        """
        account = self._account
        receivers = account.receivers(to)
        for subject, reply, headers, payload in rows:
            if receivers.stale:
                receivers = account.receivers(to)
            account.deliver_as(to, receivers, subject, reply, headers, payload)
        account.loop_tick.arm()
        return receivers.interest

    def throttle(self, client: Client) -> None:
        """Pause reading from `client`, the JetStream server, while this server is overloaded.

        Deliveries may be sent to clients of any server, so a blocked link to another server counts
        too.
        """
        hub = self._account.hub
        if self._held is not None:
            return
        if hub.overloaded:
            hub.resume_later(self)
        elif hub.blocked_links:
            hub.blocked_links[0].on_writable.append(self.resume)
        elif hub.output_nearly_full:
            hub.output_nearly_full = False
            asyncio.get_running_loop().call_later(STALL_S, self.resume)
        else:
            return
        self._held = client
        client.pause_reading()

    def resume(self) -> None:
        """Resume reading from the other NATS system.

        Called at the end of an overload, when a route accepts output again, or by a timer.
        """
        held, self._held = self._held, None
        if held is not None:
            held.resume_reading()
