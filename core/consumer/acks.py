"""Parsing of the payloads of acknowledgements.

ACK, OK and WPI must match exactly; NXT, NAK and TERM are prefixes with an argument. Anything
else does nothing (but is answered when it has a reply subject).
"""

from enum import Enum
from typing import Annotated

import msgspec

from core.model.durations import parse_duration


class AckKind(Enum):
    """The kinds of acknowledgement."""

    ACK = "+ACK"
    NAK = "-NAK"
    PROGRESS = "+WPI"
    NEXT = "+NXT"
    TERM = "+TERM"
    UNKNOWN = ""


PLAIN = frozenset((b"", b"+ACK", b"+OK"))
"""Payloads of an acknowledgement without argument."""


class _NakOptions(msgspec.Struct):
    delay: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0


_decode_nak = msgspec.json.Decoder(_NakOptions).decode


def parse(payload: bytes) -> tuple[AckKind, bytes]:
    """Return the kind and its argument without surrounding blanks."""
    if payload in PLAIN:
        return AckKind.ACK, b""
    if payload.startswith(b"+NXT"):
        return AckKind.NEXT, payload[4:].strip()
    if payload.startswith(b"-NAK"):
        return AckKind.NAK, payload[4:].strip()
    if payload == b"+WPI":
        return AckKind.PROGRESS, b""
    if payload.startswith(b"+TERM"):
        return AckKind.TERM, payload[5:].strip()
    return AckKind.UNKNOWN, b""


def nak_delay(argument: bytes) -> int | None:
    """Return the delay that a NAK asks for, in nanoseconds; None means as soon as possible.

    The argument is `{"delay": ns}` or a Go duration such as `1m30s`; one that cannot be read
    counts as no argument.
    """
    if not argument:
        return None
    if argument[:1] == b"{":
        try:
            return _decode_nak(argument).delay
        except msgspec.DecodeError:
            return None
    try:
        return parse_duration(argument.decode())
    except ValueError:
        return None
