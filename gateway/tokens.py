"""Ack tokens: the right to acknowledge one delivery, as text that a caller cannot make up.

A token is base64url of `mac || tail`: `tail` is the ack subject without `$JS.ACK.`, `mac` the
first 12 bytes of HMAC-SHA256 over it. Nothing is stored, so any node that has the key serves any
token, and tokens outlive connections and restarts.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from core.client.subscribe import NotJetStream, ack_fields

_PREFIX = b"$JS.ACK."
_MAC_BYTES = 12
_TOKEN = re.compile(r"[A-Za-z0-9_-]{24,2048}")


class BadToken(ValueError):
    """Text that is no token of ours."""


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

    def open(self, token: str) -> tuple[bytes, tuple[str, str]]:
        """The ack subject in a token, and the stream and consumer it names. Raises BadToken."""
        if not _TOKEN.fullmatch(token) or len(token) % 4 == 1:
            raise BadToken("not an ack token")
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        mac, tail = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, hmac.digest(self._key, tail, "sha256")[:_MAC_BYTES]):
            raise BadToken("not an ack token of this system")
        reply = _PREFIX + tail
        try:
            stream, consumer = ack_fields(reply)[:2]
        except NotJetStream:
            raise BadToken("not an ack subject") from None
        return reply, (stream.decode(errors="replace"), consumer.decode(errors="replace"))
