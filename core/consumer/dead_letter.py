"""Dead letters: messages that ended without success, on their way to a stream of their own.

A consumer with the metadata `jetgate.dead_letter` notes every message that was delivered
`max_deliver` times or terminated. The note is part of the consumer's state, so the row that says
that the message ended says what is to become of it, too. A note is numbered; the stream that takes
the letter stores its number in the same transaction, so that none is stored twice. A message
counts as acknowledged for retention once its letter is stored.
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
"""The member of a consumer's metadata that names the stream of its dead letters."""
PREFIX = b"Jetgate-Dead-"
"""How the headers begin that a letter has beside those of the message."""
KEPT = PREFIX + b"Kept-"
"""What precedes the message's own `Nats-*` headers: in a letter they must have no effect."""
REASON_MAX = 1024
TOO_LARGE = "too-large"
_SUBJECT_SHOWN = 256
_NATS = b"Nats-"
_UNPRINTABLE = re.compile(rb"[\x00-\x1f\x7f]")


class Why(IntEnum):
    """Why a message ended; the values are stored."""

    MAX_DELIVER = 0
    TERMINATED = 1


class Ending(NamedTuple):
    """A message that ended: how often it was delivered, why, and what its client said."""

    sseq: int
    deliveries: int
    why: int
    reason: bytes = b""


class Endings:
    """The endings of one consumer that no stream has taken yet, in order of their numbers.

    Args:
        era: Which count of endings this is: numbers of another era mean nothing.
        last: The number of the newest ending.
        waiting: Those not taken, the newest last.
    """

    __slots__ = ("_waiting", "era", "is_new", "last")

    def __init__(self, era: str = "", last: int = 0, waiting: Iterable[Ending] = ()) -> None:
        self.era = era
        self.last = last
        self._waiting = {ending.sseq: ending for ending in waiting}
        self.is_new = False
        """Whether some of them were added since the owner last looked."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, sseq: int) -> bool:
        return sseq in self._waiting

    def add(self, ending: Ending, new_era: Callable[[], str]) -> None:
        """Note an ending; one whose message waits already is the same."""
        if ending.sseq in self._waiting:
            return
        self.era = self.era or new_era()
        self.last += 1
        self._waiting[ending.sseq] = ending
        self.is_new = True

    def oldest(self, limit: int, through: int) -> list[tuple[int, Ending]]:
        """Return up to `limit` endings with numbers up to `through`, oldest first."""
        first = self.last - len(self._waiting) + 1
        count = max(min(limit, through - first + 1), 0)
        return list(enumerate(islice(self._waiting.values(), count), first))

    def taken(self, through: int) -> list[Ending]:
        """Remove and return what has a number up to `through`."""
        count = through - (self.last - len(self._waiting))
        done = list(islice(self._waiting.values(), max(count, 0)))
        for ending in done:
            del self._waiting[ending.sseq]
        return done

    def all(self) -> list[Ending]:
        """Return those not taken, the newest last."""
        return list(self._waiting.values())

    def clear(self) -> list[Ending]:
        """Give up those not taken, and return them."""
        return self.taken(self.last)


def stream_for(config: ConsumerConfig) -> str:
    """Return the name of the stream that takes the dead letters of a consumer ("": none)."""
    return config.metadata.get(METADATA, "")


def check(config: ConsumerConfig, stream: str) -> None:
    """Raise ApiError if a consumer of `stream` cannot have the dead letters it asks for."""
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


class Origin(NamedTuple):
    """The message that a letter is about; `subject` is empty when the message is gone."""

    stream: str
    consumer: str
    subject: bytes = b""
    time: int = 0
    headers: bytes = b""


def letter_subject(target: str, origin: Origin, longest: int) -> bytes:
    """Return the subject of a letter: the stream's name, whose it is, and the message's own.

    `longest`: bytes that a stream can store; the subject ends early where it would have more. The
    headers have the message's own whole.
    """
    head = f"{target}.{origin.stream}.{origin.consumer}".encode()
    if not origin.subject:
        return head
    return _cut(head + b"." + origin.subject, longest).rstrip(b".")


def _cut(text: bytes, size: int) -> bytes:
    """Return how a text begins, in so many bytes at most, without a part of a character."""
    if len(text) <= size:
        return text
    while size and text[size] & 0xC0 == 0x80:
        size -= 1
    return text[:size]


def letter_headers(origin: Origin, ending: Ending, *, lacks: str = "") -> bytes:
    """Return the header block of a letter.

    `lacks`: why it has no payload (`gone`: the stream has the message no more; `too-large`: not
    even its whole subject, which is that of the letter).
    """
    subject = _cut(origin.subject, _SUBJECT_SHOWN) if lacks == TOO_LARGE else origin.subject
    about: list[tuple[bytes, bytes]] = [
        (b"Stream", origin.stream.encode()),
        (b"Consumer", origin.consumer.encode()),
        (b"Sequence", b"%d" % ending.sseq),
        (b"Deliveries", b"%d" % ending.deliveries),
        (b"Reason", Why(ending.why).name.lower().encode()),
    ]
    if ending.reason:
        about.append((b"Reason-Text", _UNPRINTABLE.sub(b" ", ending.reason)))
    if origin.subject:
        about += [(b"Subject", subject), (b"Time", format_time(origin.time).encode())]
    if lacks:
        about.append((b"Lacks-Payload", lacks.encode()))
    lines = [PREFIX + name + b": " + value for name, value in about]
    return b"\r\n".join((b"NATS/1.0", *_own(origin.headers), *lines)) + b"\r\n\r\n"


def _own(block: bytes) -> list[bytes]:
    """Return the lines of a message's own headers, those without effect that would have one."""
    lines: list[bytes] = []
    for line in block.split(b"\r\n")[1:]:
        if line.startswith(_NATS):
            lines.append(KEPT + line)
        elif line and not line.startswith(PREFIX):
            lines.append(line)
    return lines
