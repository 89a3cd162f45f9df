"""Answers of Direct Get (ADR-31): headers such as `Nats-Sequence`, and statuses such as 404."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.model.gotime import format_time
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.jetstream.log.message import Message
    from core.pubsub.account import Account

_SECONDS_MAX = 1000


class Answers:
    """Builds and sends the Direct Get answers of one stream.

    Args:
        stream: The name of the stream.
        account: The account of the requesters.
    """

    def __init__(self, stream: bytes, account: Account) -> None:
        self._stream = stream
        self._account = account
        self._seconds: dict[int, str] = {}

    def header_block(self, message: Message, more: bytes) -> bytes:
        """Return the header block of an answer: the message's headers and those of ADR-31.

        `more` are further header lines; empty: none.
        """
        seq, ts, subject, headers, _ = message
        return (
            b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: %b\r\n%b\r\n"
        ) % (
            headers[:-2] if headers else b"NATS/1.0\r\n",
            self._stream,
            subject,
            seq,
            self._stamp(ts),
            more,
        )

    def _stamp(self, ts: int) -> bytes:
        """Format a time in ns since the Unix epoch as RFC 3339; seconds are cached."""
        second, fraction = divmod(ts, NANOS_PER_SECOND)
        text = self._seconds.get(second)
        if text is None:
            if len(self._seconds) >= _SECONDS_MAX:
                self._seconds.clear()
            text = self._seconds[second] = format_time(second * NANOS_PER_SECOND)[:-1]
        if not fraction:
            return f"{text}Z".encode()
        return f"{text}.{fraction:09}".rstrip("0").encode() + b"Z"

    def status(self, reply: bytes, status: bytes) -> None:
        """Send a status, such as `404 Message Not Found`, to the reply subject of a request."""
        self._account.publish(reply, b"", b"NATS/1.0 " + status + b"\r\n\r\n", b"")
