"""Ack tokens: signed texts that allow a client to acknowledge one delivered message.

A token is base64url of `mac || tail`: `tail` is the ack subject without `$JS.ACK.`, `mac` the first
12 bytes of HMAC-SHA256 over it. Nothing is stored, so any node with the key accepts any token, and
tokens stay valid after reconnects and restarts. The token of an earlier delivery acknowledges its
message too, because JetStream uses the sequences in the ack subject.
"""

import hmac
import re
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from hashlib import sha256

from core.client.subscribe import NotJetStream, ack_fields

_PREFIX = b"$JS.ACK."
_MAC_BYTES = 12
_TOKEN = re.compile(r"[A-Za-z0-9_-]{24,2048}")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")

_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))
_BLOCK = 64


class BadToken(ValueError):
    """The text is not an ack token of this system; the exception's text is the reason."""


class AckTokens:
    """Creates and verifies ack tokens with one key.

    Raises ValueError for a key of fewer than 16 bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("the key of ack tokens needs at least 16 bytes")
        own = hmac.digest(key, b"jetgate ack token v1", sha256).ljust(_BLOCK, b"\0")
        # HMAC (RFC 2104) from the state after hashing the key: starting with the key would cost
        # twice as much for every fetched message.
        self._inner = sha256(own.translate(_INNER))
        self._outer = sha256(own.translate(_OUTER))

    def seal(self, reply: bytes) -> str:
        """Return the token for a delivery, from its reply subject; empty if it needs no
        acknowledgement.
        """
        if not reply.startswith(_PREFIX):
            return ""
        tail = reply[len(_PREFIX) :]
        text = b2a_base64(self._mac(tail) + tail, newline=False)
        return text.translate(_URL_SAFE).rstrip(b"=").decode()

    def _mac(self, tail: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(tail)
        outer.update(inner.digest())
        return outer.digest()[:_MAC_BYTES]

    def open(self, token: str) -> tuple[bytes, tuple[str, str]]:
        """Verify a token. Returns its ack subject, and (stream, consumer).

        Raises BadToken if the text is malformed or was signed with another key.
        """
        if not _TOKEN.fullmatch(token) or len(token) % 4 == 1:
            raise BadToken(
                "the text is not an ack token: pass on `token` of a fetched message unchanged"
            )
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        mac, tail = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(tail)):
            raise BadToken(
                "the ack token was signed with another key: all nodes must have one ack key"
            )
        reply = _PREFIX + tail
        try:
            stream, consumer = ack_fields(reply)[:2]
        except NotJetStream:
            raise BadToken("the ack token does not contain an ack subject") from None
        return reply, (stream.decode(errors="replace"), consumer.decode(errors="replace"))
