"""Direct Get requests outside the trust window of the leader (`core.jetstream.trust_gate`).

Another node may lead by then, with newer messages. So a request is held until the leadership is
confirmed, at most `core.jetstream.trust_gate.HOLD_S` seconds. After that memory answers: while
PostgreSQL is away, a message that may be old is worth more than none.
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
"""Bytes of requests that are held at most for one stream; memory answers further ones at once."""
_COST = 200

Request = tuple["Session | None", bytes, bytes, bytes, bytes]
"""Session, subject, reply subject, header block and body of a request."""


class HeldRequests:
    """The requests for one stream that wait for its leadership to be confirmed.

    Args:
        trust: The trust window.
        answer: Called with the held requests, in their order, when they are to be answered.
    """

    def __init__(self, trust: TrustGate, answer: Callable[[list[Request]], None]) -> None:
        self._trust = trust
        self._answer = answer
        self._requests: list[Request] = []
        self._nbytes = 0

    def hold(self, request: Request) -> None:
        """Hold a request; the first one starts the wait for the confirmation."""
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
        """Remove the held requests and return them."""
        requests, self._requests = self._requests, []
        self._nbytes = 0
        return requests


def forward(account: Account, request: Request) -> None:
    """Forward a request to the stream's leader; without one answer 503 no responders."""
    session, subject, reply, headers, body = request
    receivers = account.receivers(subject)
    if receivers.forwarder is not None:
        receivers.forwarder.call(session, subject, reply, headers, body)
    elif getattr(session, "no_responders", False) and not (receivers.targets or receivers.groups):
        block = build(((b"Nats-Subject", subject),), 503)
        account.publish(reply, b"", block, b"")
    account.loop_tick.arm()
