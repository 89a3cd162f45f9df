"""The table of WebSocket close codes, with the reaction that each requires from the client.

Documents and SDKs are generated from it. `gateway.ws.connection` and `gateway.ws.session` choose
the code when a connection closes.
"""

from dataclasses import dataclass
from enum import Enum


class Remedy(Enum):
    """The reaction that a close code requires from the client."""

    NOTHING = "nothing"
    """None: the client closed the connection itself, or requested the close."""
    REPORT = "give up"
    """Report the error to the user: another attempt would fail in the same way."""
    SIGN_IN = "sign in"
    """Get new credentials, then connect again."""
    RETRY = "retry"
    """Connect again at once, and resume the feeds."""
    BACK_OFF = "back off"
    """Connect again after a pause that grows with each attempt, and resume the feeds."""


@dataclass(frozen=True, slots=True)
class CloseCode:
    """One WebSocket close code: number, name, remedy and description.

    Codes 4000-4099 concern authentication, 4100-4199 errors in the protocol. After 4200-4299 the
    client connects again at once, after 4300-4399 with a pause.
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

    For a code that is not in the table, its range decides (`CloseCode`); outside of the ranges:
    `BACK_OFF`.
    """
    for row in CLOSE_CODES:
        if row.code == code:
            return row.remedy
    if 4000 <= code < 4200:
        return Remedy.SIGN_IN if code < 4100 else Remedy.REPORT
    return Remedy.RETRY if 4200 <= code < 4300 else Remedy.BACK_OFF
