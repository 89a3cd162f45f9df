"""The texts of nats-server in -ERR lines and for the reasons of closed connections."""

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
    """Return the reason that /connz shows for a connection that was closed by a protocol error."""
    return _REASONS.get(error.text, "Protocol Violation")


def permissions_violation(what: str) -> bytes:
    """Return the -ERR line for a missing permission to do `what`, such as `Publish to "foo"`."""
    return encoder.error(f"Permissions Violation for {what}")


def subscription_violation(subject: bytes, queue: bytes = b"") -> str:
    """Return the -ERR text for a subscription without permission; a caller may append to it."""
    using = f" using queue {quoted(queue)}" if queue else ""
    return f"Permissions Violation for Subscription to {quoted(subject)}{using}"


def quoted(subject: bytes) -> str:
    r"""Return a subject in double quotes as nats-server writes it.

    Invalid UTF-8 becomes \x and digits.
    """
    return _BAD_BYTE.sub(r"\\x\1", quote(subject.decode("utf-8", "surrogateescape")))
