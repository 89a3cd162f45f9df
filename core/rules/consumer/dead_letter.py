"""Dead letters: copies of messages that a consumer gave up, stored in a stream of their own.

A consumer with the metadata `jetgate.dead_letter` records a dead letter for every message that was
delivered `max_deliver` times or terminated. Dead letters that are not stored yet are part of the
consumer's state, so that the commit that ends a message also requests its dead letter. They are
numbered. The dead-letter stream stores the number in the transaction of the dead letter, so that
none is stored twice. For retention, a message counts as acknowledged once its dead letter is
stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from core.model import names
from core.model.api_errors import api_error
from core.model.consumer import AckPolicy, ConsumerConfig
from core.model.gotime import format_time

METADATA = "jetgate.dead_letter"
"""The key in a consumer's metadata whose value names its dead-letter stream."""
PREFIX = b"Jetgate-Dead-"
"""The prefix of the headers that a dead letter has in addition to those of the message."""
ORIGINAL = PREFIX + b"Kept-"
"""The prefix put before the message's own `Nats-*` headers, so that they have no effect."""
REASON_MAX = 1024
TOO_LARGE = "too-large"
_SUBJECT_SHOWN = 256
_NATS = b"Nats-"
_UNPRINTABLE = re.compile(rb"[\x00-\x1f\x7f]")


class EndingReason(IntEnum):
    """The reason of a dead letter. The numbers are stored."""

    MAX_DELIVER = 0
    TERMINATED = 1


class DeadLetter(NamedTuple):
    """A message that a consumer gave up.

    Attributes:
        sseq: Its stream sequence.
        deliveries: Number of its deliveries.
        reason: A value of `EndingReason`.
        reason_text: The reason that the client sent with TERM (b"": none).
    """

    sseq: int
    deliveries: int
    reason: int
    reason_text: bytes = b""


class PendingDeadLetters:
    """The dead letters of one consumer that are not stored yet, in order of their numbers.

    Args:
        era: Id of this numbering, new for a recreated consumer; numbers of another era are not
            comparable. Empty: no dead letter yet.
        last: The number of the newest dead letter.
        waiting: The dead letters, the newest last.
    """

    __slots__ = ("_waiting", "era", "is_new", "last")

    def __init__(self, era: str = "", last: int = 0, waiting: Iterable[DeadLetter] = ()) -> None:
        self.era = era
        self.last = last
        self._waiting = {dead_letter.sseq: dead_letter for dead_letter in waiting}
        self.is_new = False
        """True when dead letters were added since the owner last cleared this flag."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, sseq: int) -> bool:
        return sseq in self._waiting

    def add(self, dead_letter: DeadLetter, new_era: Callable[[], str]) -> None:
        """Add a dead letter with the next number, unless its message has one already.

        `new_era` returns an id for the numbering; it is called for the first dead letter.
        """
        if dead_letter.sseq in self._waiting:
            return
        self.era = self.era or new_era()
        self.last += 1
        self._waiting[dead_letter.sseq] = dead_letter
        self.is_new = True

    def oldest(self, limit: int, through: int) -> list[tuple[int, DeadLetter]]:
        """Return up to `limit` dead letters with numbers up to `through`, oldest first.

        Each is a pair (number, dead letter).
        """
        first = self.last - len(self._waiting) + 1
        count = max(min(limit, through - first + 1), 0)
        return list(enumerate(islice(self._waiting.values(), count), first))

    def remove_through(self, through: int) -> list[DeadLetter]:
        """Remove the dead letters with numbers up to `through`, and return them."""
        count = through - (self.last - len(self._waiting))
        done = list(islice(self._waiting.values(), max(count, 0)))
        for dead_letter in done:
            del self._waiting[dead_letter.sseq]
        return done

    def all(self) -> list[DeadLetter]:
        """Return all dead letters that are not stored yet, the newest last."""
        return list(self._waiting.values())

    def clear(self) -> list[DeadLetter]:
        """Remove all dead letters without storing them, and return them."""
        return self.remove_through(self.last)


def stream_for(config: ConsumerConfig) -> str:
    """Return the name of the dead-letter stream in a consumer's metadata ("": none)."""
    return config.metadata.get(METADATA, "")


def check(config: ConsumerConfig, stream: str) -> None:
    """Raise ApiError if a consumer of `stream` cannot have the dead-letter stream it names.

    The name must be valid and not that of `stream`, and the consumer must have ack policy explicit
    or all.
    """
    if METADATA not in config.metadata:
        return
    target, why = config.metadata[METADATA], ""
    if not target or not names.is_valid_name(target):
        why = "not the name of a stream"
    elif target == stream:
        why = "a stream cannot take the dead letters of its own consumers"
    elif config.ack_policy in (AckPolicy.NONE, AckPolicy.FLOW_CONTROL):
        why = f"ack policy {config.ack_policy.value} knows no dead letters"
    if why:
        raise api_error("JSConsumerCreate", err=f"{METADATA}: {why}")


class EndedMessage(NamedTuple):
    """The message of a dead letter, and the consumer that gave it up.

    Attributes:
        stream: Name of its stream.
        consumer: Name of the consumer.
        subject: Its subject (b"": the message was removed from the stream).
        time: Time at which it was stored, in nanoseconds since the Unix epoch.
        headers: Its header block.
    """

    stream: str
    consumer: str
    subject: bytes = b""
    time: int = 0
    headers: bytes = b""


def dead_letter_subject(target: str, origin: EndedMessage, longest: int) -> bytes:
    """Return the subject of a dead letter: dead-letter stream, stream, consumer, message's subject.

    `target` is the dead-letter stream. The subject is cut to `longest` bytes, the most that a
    stream can store. The headers contain the message's subject in full.
    """
    head = f"{target}.{origin.stream}.{origin.consumer}".encode()
    if not origin.subject:
        return head
    return _truncated(head + b"." + origin.subject, longest).rstrip(b".")


def _truncated(text: bytes, size: int) -> bytes:
    """Return at most the first `size` bytes of a text, without a partial UTF-8 character."""
    if len(text) <= size:
        return text
    while size and text[size] & 0xC0 == 0x80:
        size -= 1
    return text[:size]


def dead_letter_headers(origin: EndedMessage, dead_letter: DeadLetter, *, lacks: str = "") -> bytes:
    """Return the header block of a dead letter.

    `lacks` is the reason why it has no payload ("": it has one). `gone`: the message is removed
    from the stream. `too-large`: the stream cannot store it; the header with the message's subject
    is cut too.
    """
    subject = _truncated(origin.subject, _SUBJECT_SHOWN) if lacks == TOO_LARGE else origin.subject
    about: list[tuple[bytes, bytes]] = [
        (b"Stream", origin.stream.encode()),
        (b"Consumer", origin.consumer.encode()),
        (b"Sequence", b"%d" % dead_letter.sseq),
        (b"Deliveries", b"%d" % dead_letter.deliveries),
        (b"Reason", EndingReason(dead_letter.reason).name.lower().encode()),
    ]
    if dead_letter.reason_text:
        about.append((b"Reason-Text", _UNPRINTABLE.sub(b" ", dead_letter.reason_text)))
    if origin.subject:
        about += [(b"Subject", subject), (b"Time", format_time(origin.time).encode())]
    if lacks:
        about.append((b"Lacks-Payload", lacks.encode()))
    lines = [PREFIX + name + b": " + value for name, value in about]
    return b"\r\n".join((b"NATS/1.0", *_own(origin.headers), *lines)) + b"\r\n\r\n"


def _own(block: bytes) -> list[bytes]:
    """Return the header lines of the message for its dead letter.

    Lines that begin with `Nats-` get a prefix, since they would affect the storing of the dead
    letter. Lines of an earlier dead letter are left out.
    """
    lines: list[bytes] = []
    for line in block.split(b"\r\n")[1:]:
        if line.startswith(_NATS):
            lines.append(ORIGINAL + line)
        elif line and not line.startswith(PREFIX):
            lines.append(line)
    return lines
