"""The state of one connection: what a client may say when (pure).

`receive` turns what came into actions for those who do the input and output: frames to carry out,
refusals to answer, or the close. After a close there are no more.
"""

from dataclasses import dataclass

from gateway.problems import Problem
from gateway.ws.close_codes import BAD_FRAME, LATE_HELLO, UNAUTHORIZED, CloseCode
from gateway.ws.codec import BadFrame, Codec
from gateway.ws.credit import Account
from gateway.ws.frames import ClientFrame, Credit, Drain, Hello, Subscribe, Unsubscribe


@dataclass(frozen=True, slots=True)
class Refusal:
    """A frame that has no effect, and why."""

    id: int
    problem: Problem


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing goes on."""

    code: CloseCode
    reason: str = ""


Action = ClientFrame | Refusal | Close


class Session:
    """What is known of a connection.

    Attributes:
        accounts: the credit of each feed, by `sid`.
        needs_hello: whether nothing is taken before `hello`.
        is_over: whether it was closed.
    """

    def __init__(self, codec: Codec, *, needs_hello: bool, feeds_max: int) -> None:
        self.accounts: dict[int, Account] = {}
        self.needs_hello = needs_hello
        self.is_over = False
        self._codec = codec
        self._feeds_max = feeds_max
        self._is_first = True

    def receive(self, data: str | bytes) -> list[Action]:
        """Read one WebSocket frame."""
        if self.is_over:
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
            if self.is_over:
                break
        return actions

    def end(self, sid: int) -> None:
        """Forget a feed, which has ended."""
        self.accounts.pop(sid, None)

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
            # One for a feed that has just ended crosses the word of it.
            if (account := self.accounts.get(frame.sid)) is None:
                return None
            account.grant(frame.msgs, frame.bytes)
        elif isinstance(frame, Unsubscribe) or (isinstance(frame, Drain) and frame.sid is not None):
            if frame.sid not in self.accounts:
                problem = Problem(404, "no-such-feed", f"sid {frame.sid}: no feed")
                return Refusal(frame.id, problem)
            if isinstance(frame, Unsubscribe):
                self.end(frame.sid)
        return frame

    def _subscribe(self, frame: Subscribe) -> Action:
        if frame.sid in self.accounts:
            problem = Problem(409, "feed-exists", f"sid {frame.sid}: there is such a feed")
            return Refusal(frame.id, problem)
        if len(self.accounts) >= self._feeds_max:
            problem = Problem(429, "too-many-feeds", f"more than {self._feeds_max} feeds")
            return Refusal(frame.id, problem)
        wanted = frame.credit
        account = Account() if wanted is None else Account(wanted.msgs, wanted.bytes)
        self.accounts[frame.sid] = account
        return frame

    def _close(self, code: CloseCode, reason: str) -> Close:
        self.is_over = True
        self.accounts.clear()
        return Close(code, reason)
