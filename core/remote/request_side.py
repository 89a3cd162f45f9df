"""The side of a bridge where requests come from: its interface, and an implementing account."""

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
"""Seconds without reads from the JetStream server while this side is too slow."""


class RequestSide(Protocol):
    """The side with the clients that send API requests and get deliveries."""

    on_interest: list[Callable[[bytes], None]]
    """Called with the subject of a subscription that begins or ends."""

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Subscribe to a filter; return a function that unsubscribes."""
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Return True if a subject has a subscription."""
        ...

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message."""
        ...

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Deliver messages (with their own subjects) to `to`; return True if it has subscribers."""
        ...

    def throttle(self, client: Client) -> None:
        """Pause reading from `client`, the JetStream server, while this side is overloaded."""
        ...


class AccountSide:
    """An account of this server as the side where requests come from."""

    def __init__(self, account: Account) -> None:
        self.on_interest = account.on_interest
        self.has_interest = account.has_interest
        self.publish = account.publish
        self._account = account
        self._held: Client | None = None

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Subscribe to a filter; return a function that unsubscribes."""

        def on_message(
            session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> None:
            call(subject, reply, headers, payload)

        service = self._account.subscribe(subject, on_message, local_only=True)
        return lambda: self._account.unsubscribe(service)

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Deliver messages to subscriptions of `to`. Return True if there are any."""
        account = self._account
        receivers = account.receivers(to)
        for subject, reply, headers, payload in rows:
            if receivers.stale:
                receivers = account.receivers(to)
            account.deliver_as(to, receivers, subject, reply, headers, payload)
        account.loop_tick.arm()
        return receivers.interest

    def throttle(self, client: Client) -> None:
        """Pause reading from `client` while the hub is overloaded, as for its own clients.

        Deliveries may go to clients of any server, so a blocked link to one of them counts too.
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
        """Resume reading; called by the hub or a timer."""
        held, self._held = self._held, None
        if held is not None:
            held.resume_reading()
