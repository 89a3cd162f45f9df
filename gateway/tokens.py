"""Ack tokens: the right to acknowledge one delivery, as text that a caller cannot make up.

A token is base64url of `mac || tail`: `tail` is the ack subject without `$JS.ACK.`, `mac` the
first 12 bytes of HMAC-SHA256 over it. Nothing is stored, so any node that has the key serves any
token, and tokens outlive connections and restarts.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256

_PREFIX = b"$JS.ACK."
_MAC_BYTES = 12
_TOKEN = re.compile(r"[A-Za-z0-9_-]{24,2048}")
_V1_TOKENS = 7
_V2_TOKENS = 9


class BadToken(ValueError):
    """Text that is no token of ours."""


@dataclass(slots=True)
class Delivery:
    """What an ack subject says about the delivery it belongs to. `time` in ns since the epoch."""

    stream: str
    consumer: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    time: int
    pending: int


class AckTokens:
    """Makes and checks tokens under one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("the key of ack tokens needs at least 16 bytes")
        self._key = hmac.digest(key, b"jetgate ack token v1", sha256)

    def seal(self, reply: bytes) -> str:
        """The token of a delivery with this reply subject; empty when it takes no ack."""
        if not reply.startswith(_PREFIX):
            return ""
        tail = reply[len(_PREFIX) :]
        mac = hmac.digest(self._key, tail, "sha256")[:_MAC_BYTES]
        return urlsafe_b64encode(mac + tail).rstrip(b"=").decode()

    def open(self, token: str) -> tuple[bytes, Delivery]:
        """The ack subject in a token and what it says. Raises BadToken."""
        if not _TOKEN.fullmatch(token) or len(token) % 4 == 1:
            raise BadToken("not an ack token")
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        mac, tail = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, hmac.digest(self._key, tail, "sha256")[:_MAC_BYTES]):
            raise BadToken("not an ack token of this system")
        return _PREFIX + tail, read_delivery(_PREFIX + tail)


def read_delivery(reply: bytes) -> Delivery:
    """Read an ack subject, in the short form or the one with domain and account.

    Raises BadToken when it is neither.
    """
    parts = reply.removeprefix(_PREFIX).decode(errors="replace").split(".")
    if len(parts) >= _V2_TOKENS:
        parts = parts[2:]
    if len(parts) < _V1_TOKENS:
        raise BadToken("not an ack subject")
    stream, consumer = parts[:2]
    try:
        delivered, stream_seq, consumer_seq, time, pending = map(int, parts[2:7])
    except ValueError:
        raise BadToken("not an ack subject") from None
    return Delivery(stream, consumer, delivered, stream_seq, consumer_seq, time, pending)
