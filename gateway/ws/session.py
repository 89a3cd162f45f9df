"""Protocol state of a WebSocket connection: checks which frames the client may send (no I/O).

`receive` converts input to actions for `gateway.ws.connection`: frames to carry out, refusals to
send, or the close of the connection. After a close no actions follow.
"""

from dataclasses import dataclass

from gateway.http.problems import Problem
from gateway.ws.close_codes import BAD_FRAME, LATE_HELLO, UNAUTHORIZED, CloseCode
from gateway.ws.codec import BadFrame, Codec
from gateway.ws.credit import FeedCredit
from gateway.ws.frames import ClientFrame, Credit, Drain, Hello, Subscribe, Unsubscribe


@dataclass(frozen=True, slots=True)
class Refusal:
    """A frame that is not carried out, by its id, and the problem to send."""

    id: int
    problem: Problem


@dataclass(frozen=True, slots=True)
class Close:
    """The action to close the connection, with code and reason."""

    code: CloseCode
    reason: str = ""


Action = ClientFrame | Refusal | Close


class Session:
    """The protocol state of a WebSocket connection.

    Attributes:
        credits: The credit of each open feed, by `sid`.
        needs_hello: True while the connection still requires the frame `hello`.
        is_closed: True once the connection is closed.
    """

    def __init__(self, codec: Codec, *, needs_hello: bool, feeds_max: int) -> None:
        self.credits: dict[int, FeedCredit] = {}
        self.needs_hello = needs_hello
        self.is_closed = False
        self._codec = codec
        self._feeds_max = feeds_max
        self._is_first = True

    def receive(self, data: str | bytes) -> list[Action]:
        """Decode one WebSocket message, and return the actions for its frames, in order."""
        if self.is_closed:
            return []
        try:
            frames = self._codec.decode(data)
        except BadFrame as error:
            return [self._close(BAD_FRAME, str(error))]
        actions: list[Action] = []
        for frame in frames:
            action = self._judge(frame)
            self._is_first = False
            if action is not None:
                actions.append(action)
            if self.is_closed:
                break
        return actions

    def end(self, sid: int) -> None:
        """Remove the credit of a feed that has ended."""
        self.credits.pop(sid, None)

    def _judge(self, frame: ClientFrame) -> Action | None:
        if isinstance(frame, Hello):
            if not self._is_first:
                return self._close(LATE_HELLO, "hello is the first frame")
            self.needs_hello = False
            return frame
        if self.needs_hello:
            return self._close(UNAUTHORIZED, "the first frame is hello, with credentials")
        if isinstance(frame, Subscribe):
            return self._subscribe(frame)
        if isinstance(frame, Credit):
            # The end of a feed and a grant for it may cross: ignore the grant.
            if (credit := self.credits.get(frame.sid)) is None:
                return None
            credit.grant(frame.msgs, frame.bytes)
        elif isinstance(frame, Unsubscribe) or (isinstance(frame, Drain) and frame.sid is not None):
            if frame.sid not in self.credits:
                problem = Problem(404, "no-such-feed", f"sid {frame.sid}: there is no such feed")
                return Refusal(frame.id, problem)
            if isinstance(frame, Unsubscribe):
                self.end(frame.sid)
        return frame

    def _subscribe(self, frame: Subscribe) -> Action:
        if frame.sid in self.credits:
            problem = Problem(409, "feed-exists", f"sid {frame.sid}: a feed with this sid is open")
            return Refusal(frame.id, problem)
        if len(self.credits) >= self._feeds_max:
            problem = Problem(
                429,
                "too-many-feeds",
                f"{self._feeds_max} feeds are open, the most of one connection",
            )
            return Refusal(frame.id, problem)
        wanted = frame.credit
        credit = FeedCredit() if wanted is None else FeedCredit(wanted.msgs, wanted.bytes)
        self.credits[frame.sid] = credit
        return frame

    def _close(self, code: CloseCode, reason: str) -> Close:
        self.is_closed = True
        self.credits.clear()
        return Close(code, reason)
