"""What the parts of a connection see of it: frames to write, and feeds that have some."""

from abc import ABC, abstractmethod

from core.runtime.tasks import spawn
from gateway.call import Gateway
from gateway.problems import Problem, problem_of
from gateway.websocket_protocol import wire
from gateway.ws.codec import Codec
from gateway.ws.credit import Account
from gateway.ws.frames import Ended, ServerFrame, Subscribe, Subscribed

SLICE_MESSAGES = 512
SLICE_BYTES = 64 * 1024


class Link(ABC):
    """A connection with an identity."""

    gateway: Gateway
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

    def say(self, frame: ServerFrame) -> None:
        """Write a frame before what feeds have."""
        self.put(self.codec.encode(frame))


class Feed(ABC):
    """Messages of one `sid`. `take` is called when the socket has room, and only then."""

    def __init__(self, link: Link, wanted: Subscribe, account: Account) -> None:
        self.sid = wanted.sid
        self.account = account
        self._link = link
        self._batch = wanted.batch
        self._drained = False
        self._is_over = False

    @abstractmethod
    async def open(self) -> Subscribed:
        """Begin. Raises Problem, ApiError and ClientError."""

    @abstractmethod
    def take(self) -> bytes | None:
        """Return WebSocket frames to write now; None: `ready` will be called."""

    @abstractmethod
    async def close(self) -> None:
        """End at once."""

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
        problem = error if isinstance(error, Problem) else problem_of(error)
        self._link.say(Ended(self.sid, problem.members()))
        self._link.forget(self)
        spawn(self.close(), name="feed ends")

    def _frames(self, bodies: list[bytes]) -> bytes:
        """Return the WebSocket frames of messages."""
        codec, sid, most = self._link.codec, self.sid, self._batch
        if len(bodies) <= most:
            return wire(codec.messages(sid, bodies), is_text=codec.is_text)
        return b"".join(
            [
                wire(codec.messages(sid, bodies[i : i + most]), is_text=codec.is_text)
                for i in range(0, len(bodies), most)
            ]
        )
