"""Parsing the payloads of acknowledgements that clients send.

`+ACK`, `+OK` and `+WPI` must match exactly. `+NXT`, `-NAK` and `+TERM` are prefixes, followed by an
argument. Any other payload has no effect, but is answered if it has a reply subject.
"""

from enum import Enum

import msgspec

from core.goinput import trim_space
from core.model import codec
from core.model.durations import parse_duration
from core.model.gojson import JsonError
from core.model.wire import Duration


class AckKind(Enum):
    """The kinds of acknowledgement, with their payload or its prefix."""

    ACK = "+ACK"
    NAK = "-NAK"
    PROGRESS = "+WPI"
    NEXT = "+NXT"
    TERM = "+TERM"
    UNKNOWN = ""


PLAIN = frozenset((b"", b"+ACK", b"+OK"))
"""Payloads that acknowledge a message and have no argument."""


class _NakOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    delay: Duration = 0


_read_nak = codec.older_reader(_NakOptions)


def parse(payload: bytes) -> tuple[AckKind, bytes]:
    """Return the kind of an acknowledgement, and its argument without surrounding blanks."""
    if payload in PLAIN:
        return AckKind.ACK, b""
    if payload.startswith(b"+NXT"):
        return AckKind.NEXT, trim_space(payload[4:])
    if payload.startswith(b"-NAK"):
        return AckKind.NAK, trim_space(payload[4:])
    if payload == b"+WPI":
        return AckKind.PROGRESS, b""
    if payload.startswith(b"+TERM"):
        return AckKind.TERM, trim_space(payload[5:])
    return AckKind.UNKNOWN, b""


def nak_delay(argument: bytes) -> int | None:
    """Return the delay in the argument of a NAK, in nanoseconds (None: redeliver at once).

    The argument is `{"delay": ns}` or a Go duration such as `1m30s`. An invalid argument counts as
    an absent one.
    """
    if not argument:
        return None
    if argument[:1] == b"{":
        try:
            return _read_nak(argument).delay
        except JsonError:
            return None
    try:
        return parse_duration(argument.decode())
    except ValueError:
        return None
