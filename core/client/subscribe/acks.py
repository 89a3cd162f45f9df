"""Messages delivered by a consumer and their acknowledgements (ADR-15, "JSAck", "Ack Handling").

The reply subject of a delivery (ack subject) has 9 tokens, or at least 11 with domain and account
in front of the stream. Acknowledgements are published to it unchanged. Its fields are parsed once,
when the message arrives.
"""

from collections.abc import Callable, Sequence
from typing import Any

from core.client.client import Client
from core.client.msg import Msg
from core.client.subscribe.errors import NotJetStream
from core.goinput import text_of
from core.protocol import encoder
from core.units import NANOS_PER_SECOND, ConsumerSeq, Seq

PREFIX = b"$JS.ACK."
ACK = b"+ACK"
NAK = b"-NAK"
TERM = b"+TERM"
PROGRESS = b"+WPI"

_number: Callable[[bytes], Any] = int  # `Any`: each field has a type of its own

_SHORT = 9
_LONG = 11


def ack_fields(reply: bytes) -> list[bytes]:
    """Return seven fields of the reply subject of a delivery, as bytes.

    These are stream, consumer, delivery count, stream sequence, consumer sequence, time and number
    of pending messages; all but the first two are decimal. Raises NotJetStream if `reply` is no
    such subject.
    """
    fields = reply.split(b".")
    count = len(fields)
    if count == _SHORT:
        said = fields[2:]
    elif count >= _LONG:
        said = fields[4:11]
    else:
        raise NotJetStream(reply)
    if b"" in said or not reply.startswith(PREFIX) or not b"".join(said[2:]).isdigit():
        raise NotJetStream(reply)
    return said


class JsMsg(Msg, gc=False, eq=False):
    """A message of a stream, as delivered by a consumer.

    Attributes:
        delivered: Number of deliveries of the message, from 1.
        stream_seq: Its sequence in the stream.
        consumer_seq: Sequence of the delivery.
        time: Time at which it was stored, in nanoseconds since the Unix epoch.
        pending: Number of messages that the consumer has not delivered yet.
        ended: True if further acknowledgements are ignored: a final one was sent, or the consumer
            needs none.
    """

    delivered: int
    stream_seq: Seq
    consumer_seq: ConsumerSeq
    time: int
    pending: int
    ended: bool

    @classmethod
    def of(cls, msg: Msg, *, takes_acks: bool) -> "JsMsg":
        """Return a received message with the fields of its reply subject.

        `takes_acks` is False if the consumer needs no acknowledgements. Raises NotJetStream if the
        reply subject is not that of a delivery.
        """
        reply = msg.reply
        delivered, seq, consumer_seq, time, pending = map(_number, ack_fields(reply)[2:7])
        return cls(
            msg.subject,
            reply,
            msg.headers,
            msg.payload,
            delivered=delivered,
            stream_seq=seq,
            consumer_seq=consumer_seq,
            time=time,
            pending=pending,
            ended=not takes_acks,
        )

    @property
    def domain(self) -> str:
        """The JetStream domain; empty if there is none."""
        fields = self.reply.split(b".")
        domain = fields[2] if len(fields) >= _LONG else b""
        return "" if domain == b"_" else text_of(domain)

    @property
    def stream(self) -> str:
        """The name of the stream that stores the message."""
        return text_of(ack_fields(self.reply)[0])

    @property
    def consumer(self) -> str:
        """The name of the consumer that delivered the message."""
        return text_of(ack_fields(self.reply)[1])


class Acking:
    """Base class of subscriptions whose messages are acknowledged.

    Each call sends one buffer for all its messages. Messages that already have a final
    acknowledgement, or whose consumer needs none, are skipped without an error. A call that raises
    ConnectionLost or NotPermitted marks no message as acknowledged.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def ack(self, messages: Sequence[JsMsg]) -> None:
        """Acknowledge messages as processed."""
        self._send(messages, ACK, ends=True)

    def nak(self, messages: Sequence[JsMsg], delay: float = 0.0) -> None:
        """Request the redelivery of messages, after `delay` seconds (0: at once)."""
        body = NAK + b' {"delay":%d}' % round(delay * NANOS_PER_SECOND) if delay > 0 else NAK
        self._send(messages, body, ends=True)

    def term(self, messages: Sequence[JsMsg], reason: str = "") -> None:
        """Terminate messages: they are never redelivered. The advisory contains `reason`."""
        self._send(messages, TERM + b" " + reason.encode() if reason else TERM, ends=True)

    def progress(self, messages: Sequence[JsMsg]) -> None:
        """Report messages as in progress: their ack wait starts again. Not final."""
        self._send(messages, PROGRESS, ends=False)

    async def ack_sync(self, messages: Sequence[JsMsg]) -> list[JsMsg]:
        """Acknowledge messages and wait until the server confirms it (double ack).

        Returns the messages without a confirmation in time; the server may or may not have recorded
        their acknowledgement.
        """
        live = self._live(messages)
        if not live:
            return []
        for msg in live:
            self._client.check(msg.reply)
        answers = self._client.request_many([m.reply for m in live], [ACK] * len(live))
        for msg in live:
            msg.ended = True
        await answers.settled(self._timeout)
        return [
            msg
            for index, msg in enumerate(live)
            if answers.payloads[index] is None or index in answers.statuses
        ]

    def _send(self, messages: Sequence[JsMsg], body: bytes, *, ends: bool) -> None:
        live = self._live(messages)
        if not live:
            return
        client = self._client
        for msg in live:
            client.check(msg.reply)
        client.write(b"".join([encoder.publish(msg.reply, b"", b"", body) for msg in live]))
        if ends:
            for msg in live:
                msg.ended = True

    def _live(self, messages: Sequence[JsMsg]) -> list[JsMsg]:
        return [msg for msg in messages if not msg.ended]
