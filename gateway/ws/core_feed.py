"""A WebSocket feed of core NATS messages.

Messages beyond credit or buffer are dropped and counted.
"""

import re
from collections import deque

from core.client import Msg, NotPermitted, Subscription
from gateway.formats.validation import filter_subject
from gateway.http.problems import Problem
from gateway.http.websocket_protocol import wire
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import Dropped, Subscribe, Subscribed
from gateway.ws.link import SLICE_BYTES, SLICE_MESSAGES, Feed, Link

_OVERHEAD = 512
_SYSTEM = re.compile(rb"(?:\$(?!KV\.|O\.)|_INBOX\.|_R_\.|_GR_\.)")
"""Subjects that a feed may not receive: system subjects, and replies to other clients."""
_QUEUE = re.compile(r"[^\s\x00-\x20\x7f]{1,255}")


class CoreFeed(Feed):
    """A core NATS subscription as a WebSocket feed.

    While the socket accepts no data, messages up to `feed_unread_bytes_max` bytes are buffered.
    """

    kind = "core"

    def __init__(self, link: Link, wanted: Subscribe, credit: FeedCredit) -> None:
        super().__init__(link, wanted, credit)
        self._id = wanted.id
        self._subject = wanted.subject
        self._queue = wanted.queue
        self._limit = link.gateway.settings.feed_unread_bytes_max
        self._waiting: deque[Msg] = deque()
        self._held = 0
        self._dropped = 0
        self._sub: Subscription | None = None
        self._sees_all = False

    async def open(self) -> Subscribed:
        """Subscribe, and return once the server has accepted the subscription.

        Raises Problem for an invalid or reserved subject or an invalid queue, NotPermitted if the
        server denies the subscription, ClientError if it does not respond.
        """
        gateway = self._link.gateway
        subject = filter_subject(self._subject, gateway.settings).encode()
        if _SYSTEM.match(subject):
            raise Problem(403, "reserved-subject", "subject: reserved for the system")
        if self._queue and not _QUEUE.fullmatch(self._queue):
            raise Problem(400, "bad-name", "queue: the name has blanks or control characters")
        self._sees_all = subject[:1] in (b"*", b">")
        client = gateway.client
        sub = client.subscribe(subject, self._on_batch, queue=self._queue.encode())
        self._sub = sub
        try:
            await client.flush(gateway.settings.api_timeout)
            if sub.denied:
                raise NotPermitted(subject)
        except BaseException:
            await self.close()
            raise
        return Subscribed(self._id, self.sid)

    def next_frames(self) -> bytes | None:
        """Return frames with the buffered messages, then the number of dropped ones.

        None: there is nothing to send.
        """
        codec = self._link.codec
        parts: list[bytes] = []
        bodies: list[bytes] = []
        size = 0
        waiting = self._waiting
        while waiting and len(bodies) < SLICE_MESSAGES and size < SLICE_BYTES:
            msg = waiting.popleft()
            size += _size(msg)
            self._held -= _size(msg) + _OVERHEAD
            bodies.append(codec.core_message(msg))
        if bodies:
            self.count.sent += len(bodies)
            parts.append(self._frames(bodies, size))
        if not waiting and self._dropped:
            told = codec.encode(Dropped(self.sid, self._dropped))
            self._dropped = 0
            parts.append(wire(told, is_text=codec.is_text))
        return b"".join(parts) if parts else None

    async def drain(self) -> None:
        """Unsubscribe, and wait until the messages in flight have arrived."""
        if self._sub is not None:
            await self._link.gateway.client.drain_subscription(self._sub)

    async def close(self) -> None:
        """Unsubscribe, and drop the buffered messages."""
        await super().close()
        self._waiting.clear()
        sub, self._sub = self._sub, None
        if sub is not None:
            sub.unsubscribe()

    @property
    def is_empty(self) -> bool:
        """True if no message is buffered."""
        return not self._waiting

    def _on_batch(self, batch: list[Msg]) -> None:
        credit = self.credit
        for msg in batch:
            if self._sees_all and _SYSTEM.match(msg.subject):
                continue
            size = _size(msg)
            if self._held + size > self._limit or not credit.left()[0]:
                self._dropped += 1
                self.count.dropped += 1
                continue
            credit.use(1, size)
            self._held += size + _OVERHEAD
            self._waiting.append(msg)
        self._wake()


def _size(msg: Msg) -> int:
    return len(msg.subject) + len(msg.headers) + len(msg.payload)
