"""The table of close codes: the client's reaction to each. Documents and SDKs are made from it.

`gateway.ws.connection` and `gateway.ws.session` choose the code of a close.
"""

from dataclasses import dataclass
from enum import Enum


class Remedy(Enum):
    """The client's reaction to a close."""

    NOTHING = "nothing"
    """None: the client closed the connection itself, or asked for the close."""
    REPORT = "give up"
    """Report the error: a repetition would end in the same way."""
    SIGN_IN = "sign in"
    """Get new credentials."""
    RETRY = "retry"
    """Connect again at once, and resume."""
    BACK_OFF = "back off"
    """Connect again after a growing pause, and resume."""


@dataclass(frozen=True, slots=True)
class CloseCode:
    """One close code.

    Codes 4000-4099 concern sign-in, 4100-4199 the protocol. After 4200-4299 the client connects
    again at once, after 4300-4399 with a pause.
    """

    code: int
    name: str
    remedy: Remedy
    description: str


NORMAL = CloseCode(1000, "normal", Remedy.NOTHING, "closed as asked")
GOING_AWAY = CloseCode(1001, "going-away", Remedy.RETRY, "the other side leaves")
TOO_BIG = CloseCode(1009, "too-big", Remedy.REPORT, "a frame larger than `max_frame`")
INVALID_TEXT = CloseCode(1007, "invalid-text", Remedy.REPORT, "text that is not UTF-8")
WIRE_ERROR = CloseCode(1002, "wire-error", Remedy.REPORT, "not the WebSocket protocol")
ABNORMAL = CloseCode(
    1006, "abnormal", Remedy.BACK_OFF, "cut off without a word: the network, or a kill"
)
NO_PONG = CloseCode(1011, "no-pong", Remedy.BACK_OFF, "a ping was not answered within 20 s")
RESTART = CloseCode(1012, "restart", Remedy.RETRY, "this node stops")
UNAUTHORIZED = CloseCode(4000, "unauthorized", Remedy.SIGN_IN, "credentials that are not known")
NO_HELLO = CloseCode(
    4001,
    "no-hello",
    Remedy.SIGN_IN,
    "no `hello` with credentials within 5 s, or too many frames before it",
)
REVOKED = CloseCode(4003, "revoked", Remedy.SIGN_IN, "the credentials are not good any more")
BAD_FRAME = CloseCode(4100, "bad-frame", Remedy.REPORT, "a frame that cannot be read")
LATE_HELLO = CloseCode(4101, "late-hello", Remedy.REPORT, "a second `hello`, or one too late")
LOST = CloseCode(4200, "connection-lost", Remedy.RETRY, "the façade lost its server")
NOT_LEADING = CloseCode(4201, "not-leading", Remedy.RETRY, "another node leads now")
INTERNAL = CloseCode(4300, "internal", Remedy.BACK_OFF, "an error of the server")
UNAVAILABLE = CloseCode(4301, "unavailable", Remedy.BACK_OFF, "the server cannot be reached")

CLOSE_CODES: tuple[CloseCode, ...] = (
    NORMAL,
    GOING_AWAY,
    WIRE_ERROR,
    ABNORMAL,
    INVALID_TEXT,
    TOO_BIG,
    NO_PONG,
    RESTART,
    UNAUTHORIZED,
    NO_HELLO,
    REVOKED,
    BAD_FRAME,
    LATE_HELLO,
    LOST,
    NOT_LEADING,
    INTERNAL,
    UNAVAILABLE,
)


def remedy_of(code: int) -> Remedy:
    """Return the remedy for a close code.

    For a code that is not in the table, its hundred decides, see `CloseCode`.
    """
    for row in CLOSE_CODES:
        if row.code == code:
            return row.remedy
    if 4000 <= code < 4200:
        return Remedy.SIGN_IN if code < 4100 else Remedy.REPORT
    return Remedy.RETRY if 4200 <= code < 4300 else Remedy.BACK_OFF
