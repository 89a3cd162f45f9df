"""The interfaces of WebSocket connections and their feeds to each other."""

from abc import ABC, abstractmethod
from typing import ClassVar

from core.runtime.tasks import spawn
from gateway.auth.caller import Caller
from gateway.http.problems import no_inbox, problem_of
from gateway.http.websocket_protocol import wire
from gateway.services import Gateway
from gateway.ws.codec import Codec
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import Ended, ServerFrame, Subscribe, Subscribed

SLICE_MESSAGES = 512
SLICE_BYTES = 64 * 1024


class Link(ABC):
    """A WebSocket connection, as its feeds and requests use it.

    Attributes:
        gateway: The services over the caller's NATS connection.
        caller: The authenticated caller; None until `hello` is accepted.
        codec: The encoding of frames.
    """

    gateway: Gateway
    caller: Caller | None
    codec: Codec

    @abstractmethod
    def put(self, payload: bytes) -> None:
        """Queue an encoded frame; it is written before messages of feeds."""

    @abstractmethod
    def ready(self, feed: "Feed") -> None:
        """Register that a feed has messages; the writer then calls its `next_frames`."""

    @abstractmethod
    def forget(self, feed: "Feed") -> None:
        """Remove a feed that has ended from the connection."""

    def require_replies(self) -> None:
        """Raise Problem 403 if the caller may not subscribe to an inbox, which replies need."""
        if self.caller is None or not self.caller.can_receive_replies:
            raise no_inbox()

    def send_frame(self, frame: ServerFrame) -> None:
        """Encode a frame and queue it; it is written before messages of feeds."""
        self.put(self.codec.encode(frame))


class Feed(ABC):
    """One feed of a WebSocket connection: the messages of one `sid`.

    Life cycle: `open` once, `begin` after it succeeds, `close` at the end. In between, the writer
    calls `next_frames` whenever the socket accepts data and the feed has called `Link.ready`.
    """

    kind: ClassVar[str]
    """The label of the feed in the metrics (`gateway.monitoring.feed_counts`)."""

    def __init__(self, link: Link, wanted: Subscribe, credit: FeedCredit) -> None:
        self.sid = wanted.sid
        self.credit = credit
        self._link = link
        self._batch = wanted.batch
        self._is_closed = False
        self._is_counted = False
        self.count = link.gateway.metrics.feeds.kinds[self.kind]

    @abstractmethod
    async def open(self) -> Subscribed:
        """Start the feed, and return the frame that confirms it.

        Raises Problem for invalid parameters, ApiError if the server refuses, ClientError if it
        does not respond.
        """

    @abstractmethod
    def next_frames(self) -> bytes | None:
        """Return encoded frames to write now.

        None: the feed calls `Link.ready` when it has more.
        """

    def begin(self) -> None:
        """Count the feed as open in the metrics, until `close`."""
        if not self._is_closed:
            self._is_counted = True
            self.count.open += 1

    async def close(self) -> None:
        """End the feed at once, without delivering buffered messages."""
        self._is_closed = True
        if self._is_counted:
            self._is_counted = False
            self.count.open -= 1

    async def drain(self) -> None:
        """Stop receiving, and return when no further message can arrive; then buffered ones are
        written.
        """
        await self.close()

    def granted(self) -> None:
        """Continue after the client has granted more credit."""
        self._link.ready(self)

    def _wake(self) -> None:
        self._link.ready(self)

    def _ended(self, error: Exception) -> None:
        """Send the frame `ended` with the cause, and close the feed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.send_frame(Ended(self.sid, problem_of(error).members()))
        self._link.forget(self)
        spawn(self.close(), name="feed ends")

    def _frames(self, bodies: list[bytes], nbytes: int) -> bytes:
        """Return frames with these encoded messages.

        If bytes are limited, the last frame reports them.
        """
        codec, sid, most = self._link.codec, self.sid, self._batch
        told = nbytes if self.credit.counts_bytes else 0
        if len(bodies) <= most:
            return wire(codec.messages(sid, bodies, told), is_text=codec.is_text)
        last = (len(bodies) - 1) // most * most
        parts = [codec.messages(sid, bodies[i : i + most], 0) for i in range(0, last, most)]
        parts.append(codec.messages(sid, bodies[last:], told))
        return b"".join([wire(part, is_text=codec.is_text) for part in parts])
