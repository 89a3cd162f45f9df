"""The texts of nats-server for refusals and for the reasons of closed connections."""

import re

from core.errors import ProtocolError
from core.model.gojson import quote
from core.protocol import encoder

AUTHORIZATION_VIOLATION = "Authorization Violation"
_BAD_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
_REASONS = {
    "": "Parse Error",
    AUTHORIZATION_VIOLATION: "Authentication Failure",
    "Maximum Payload Violation": "Maximum Message Payload Exceeded",
    "maximum control line exceeded": "Maximum Control Line Exceeded",
    "invalid client protocol": "Bad Client Protocol Version",
    "no responders requires headers support": "No Responders Requires Headers",
}


def reason_of(error: ProtocolError) -> str:
    """Return the reason that connz shows for a connection closed by a protocol error."""
    return _REASONS.get(error.text, "Protocol Violation")


def permissions_violation(what: str) -> bytes:
    """Return the -ERR line for a missing permission."""
    return encoder.error(f"Permissions Violation for {what}")


def subscription_violation(subject: bytes, queue: bytes = b"") -> str:
    """Return the text for a refused subscription, or its beginning."""
    using = f" using queue {quoted(queue)}" if queue else ""
    return f"Permissions Violation for Subscription to {quoted(subject)}{using}"


def quoted(subject: bytes) -> str:
    r"""Quote a subject as nats-server does; bytes that are not UTF-8 become \x.."""
    return _BAD_BYTE.sub(r"\\x\1", quote(subject.decode("utf-8", "surrogateescape")))
