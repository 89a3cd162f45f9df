"""Direct Get requests that arrive while the leadership of this node is not confirmed.

A leader confirms its leases in PostgreSQL about once per second (`core.node.trust_window`). If that
fails for some seconds, another node may lead the stream and have newer messages. So the request
waits until the leadership is confirmed, at most `core.jetstream.trust_gate.HOLD_S` seconds. Then it
is answered from memory: while PostgreSQL does not answer, a message that may be outdated is more
useful than no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol.headers import build
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.jetstream.trust_gate import TrustGate
    from core.pubsub.account import Account, Session

HELD_BYTES = 16 << 20
"""Largest total size in bytes of the held requests of one stream.

Further requests are answered from memory at once.
"""
_COST = 200

Request = tuple["Session | None", bytes, bytes, bytes, bytes]
"""Session, subject, reply subject, header block and body of a request."""


class HeldRequests:
    """The Direct Get requests for one stream that wait for its leadership to be confirmed.

    Args:
        trust: Whether the leadership is confirmed.
        answer: Called with the held requests, in the order of arrival, when they are to be
            answered.
    """

    def __init__(self, trust: TrustGate, answer: Callable[[list[Request]], None]) -> None:
        self._trust = trust
        self._answer = answer
        self._requests: list[Request] = []
        self._nbytes = 0

    def hold(self, request: Request) -> None:
        """Hold a request until the leadership is confirmed, at most `HOLD_S` seconds.

        The time counts from the first held request. Above `HELD_BYTES` the request is answered at
        once.
        """
        if self._nbytes > HELD_BYTES:
            self._answer([request])
            return
        self._requests.append(request)
        self._nbytes += _COST + sum(len(part) for part in request[1:])
        if len(self._requests) == 1:
            spawn(self._wait(), name="direct get held")

    async def _wait(self) -> None:
        await self._trust.wait_open()
        if requests := self.release():
            self._answer(requests)

    def release(self) -> list[Request]:
        """Return the held requests and empty the list; they are not answered here."""
        requests, self._requests = self._requests, []
        self._nbytes = 0
        return requests


def forward(account: Account, request: Request) -> None:
    """Forward a request to the stream's leader on another server.

    If the subject has no subscriber, the requester gets 503 no responders.
    """
    session, subject, reply, headers, body = request
    receivers = account.receivers(subject)
    if receivers.forwarder is not None:
        receivers.forwarder.call(session, subject, reply, headers, body)
    elif getattr(session, "no_responders", False) and not (receivers.targets or receivers.groups):
        block = build(((b"Nats-Subject", subject),), 503)
        account.publish(reply, b"", block, b"")
    account.loop_tick.arm()
