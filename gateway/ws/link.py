"""What the parts of a connection see of it: frames to write, and feeds that have some."""

from abc import ABC, abstractmethod
from typing import ClassVar

from core.runtime.tasks import spawn
from gateway.call import Caller, Gateway
from gateway.problems import no_inbox, problem_of
from gateway.websocket_protocol import wire
from gateway.ws.codec import Codec
from gateway.ws.credit import Account
from gateway.ws.frames import Ended, ServerFrame, Subscribe, Subscribed

SLICE_MESSAGES = 512
SLICE_BYTES = 64 * 1024


class Link(ABC):
    """A connection with an identity.

    Attributes:
        caller: who he is; None until `hello` has said it.
    """

    gateway: Gateway
    caller: Caller | None
    codec: Codec

    @abstractmethod
    def put(self, payload: bytes) -> None:
        """Write a frame before what feeds have."""

    @abstractmethod
    def ready(self, feed: "Feed") -> None:
        """Let a feed be asked for what it has."""

    @abstractmethod
    def forget(self, feed: "Feed") -> None:
        """Let go of a feed that has ended."""

    def need_answers(self) -> None:
        """Refuse what the server has to answer, to who may not be answered. Raises Problem."""
        if self.caller is None or not self.caller.can_ask:
            raise no_inbox()

    def say(self, frame: ServerFrame) -> None:
        """Write a frame before what feeds have."""
        self.put(self.codec.encode(frame))


class Feed(ABC):
    """Messages of one `sid`. `take` is called when the socket has room, and only then.

    *Life cycle*: `open`, `begin` once that was done, `close`.
    """

    kind: ClassVar[str]
    """What it is counted as (`gateway.feed_counts`)."""

    def __init__(self, link: Link, wanted: Subscribe, account: Account) -> None:
        self.sid = wanted.sid
        self.account = account
        self._link = link
        self._batch = wanted.batch
        self._is_over = False
        self._is_counted = False
        self.count = link.gateway.metrics.feeds.kinds[self.kind]

    @abstractmethod
    async def open(self) -> Subscribed:
        """Begin. Raises Problem, ApiError and ClientError."""

    @abstractmethod
    def take(self) -> bytes | None:
        """Return WebSocket frames to write now; None: `ready` will be called."""

    def begin(self) -> None:
        """Count it, from now until it is closed."""
        if not self._is_over:
            self._is_counted = True
            self.count.open += 1

    async def close(self) -> None:
        """End at once."""
        self._is_over = True
        if self._is_counted:
            self._is_counted = False
            self.count.open -= 1

    async def drain(self) -> None:
        """Take no more, and return when what was taken was written."""
        await self.close()

    def granted(self) -> None:
        """There is more credit."""
        self._link.ready(self)

    def _wake(self) -> None:
        self._link.ready(self)

    def _ended(self, error: Exception) -> None:
        """Say that it has ended by itself, and why."""
        if self._is_over:
            return
        self._is_over = True
        self._link.say(Ended(self.sid, problem_of(error).members()))
        self._link.forget(self)
        spawn(self.close(), name="feed ends")

    def _frames(self, bodies: list[bytes], nbytes: int) -> bytes:
        """Return the WebSocket frames of messages; the last tells their bytes, if those count."""
        codec, sid, most = self._link.codec, self.sid, self._batch
        told = nbytes if self.account.counts_bytes else 0
        if len(bodies) <= most:
            return wire(codec.messages(sid, bodies, told), is_text=codec.is_text)
        last = (len(bodies) - 1) // most * most
        parts = [codec.messages(sid, bodies[i : i + most], 0) for i in range(0, last, most)]
        parts.append(codec.messages(sid, bodies[last:], told))
        return b"".join([wire(part, is_text=codec.is_text) for part in parts])
