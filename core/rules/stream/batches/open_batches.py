"""Open atomic batches: messages that wait for the commit message of their batch (ADR-50).

A message of an open batch is only kept in memory. Its content is checked when the batch is
complete, for all messages at once (`core.rules.stream.plans.atomic`). This module checks the batch
itself: its id, its sequence without gaps, its size, and the number of open batches. A batch that
fails a check is dropped, and an advisory reports it as abandoned.

Open batches are not stored: they are lost with their node. The client then gets an error for the
next message, or no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.model.api_errors import api_error
from core.model.gojson import quote
from core.model.versions import is_level_supported
from core.protocol.messages import MessageColumns
from core.rules.stream import headers as h
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.model.account import ServerLimits

LONGEST_ID = 64
_UNSIGNED = (1 << 64) - 1
_COMMITS = (b"1", b"eob")
_COMMITTED = b"Nats-Batch-Commit: 1\r\n\r\n"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of open atomic batches.

    Attributes:
        per_stream: Open batches of one stream.
        total: Open batches of all streams of the node.
        messages: Messages of one batch.
        timeout: Nanoseconds without a further message after which a batch is dropped.
        nbytes: Bytes that all open batches of the node may hold in memory.
    """

    per_stream: int = 50
    total: int = 1000
    messages: int = 1000
    timeout: int = 10 * NANOS_PER_SECOND
    nbytes: int = 256 << 20


def batch_limits(limits: ServerLimits) -> BatchLimits:
    """Return the batch limits of a server; a limit that is not positive gets its default."""
    usual = BatchLimits()
    return BatchLimits(
        _positive(limits.batch_inflight_per_stream, usual.per_stream),
        _positive(limits.batch_inflight_total, usual.total),
        _positive(limits.batch_messages, usual.messages),
        _positive(limits.batch_timeout, usual.timeout),
    )


def _positive(value: int, usual: int) -> int:
    return value if value > 0 else usual


@dataclass(slots=True)
class Quota:
    """The open batches of all streams of a node, counted for its limits.

    Attributes:
        own: Returns the limits of the node.
        batches: Number of open atomic batches.
        nbytes: Bytes that the messages of open batches hold in memory.
        fast: Number of open fast-ingest batches, which hold no messages.
    """

    own: Callable[[], BatchLimits] = BatchLimits
    batches: int = 0
    nbytes: int = 0
    fast: int = 0


@dataclass(slots=True)
class OpenBatch:
    """An open atomic batch with the messages received so far.

    Attributes:
        key: Its key (`batch_key`): batch id and author.
        name: The id of the batch.
        limits: The limits at the time of its first message.
        columns: Its messages so far.
        deadline: Time at which the batch is dropped, in monotonic nanoseconds.
    """

    key: bytes
    name: bytes
    limits: BatchLimits
    columns: MessageColumns = field(default_factory=MessageColumns)
    deadline: int = 0


class Staging:
    """The open atomic batches of one stream.

    Args:
        quota: The open batches of the node, and its limits.
        abandon: Called for every batch that is dropped after an error or timeout, with the id and
            the reason ("incomplete", "large", "unsupported" or "timeout").
    """

    def __init__(self, quota: Quota, abandon: Callable[[bytes, str], None]) -> None:
        self._quota = quota
        self._abandon = abandon
        # Batches by key, in the order of their deadlines.
        self.open: dict[bytes, OpenBatch] = {}

    def find(self, found: dict[bytes, bytes]) -> OpenBatch | None:
        """Return the open batch of a message with these headers (None: there is none)."""
        return self.open.get(batch_key(found[h.BATCH_ID], found.get(h.BATCH_AUTHOR, b"")))

    def receive(
        self, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes], now: int
    ) -> OpenBatch | None:
        """Add a message to its batch, or open the batch with it.

        Returns the batch if the message completes it, else None.

        Args:
            subject: The subject of the message.
            block: Its header block.
            payload: Its payload.
            found: The headers in `block`, with a batch id.
            now: Monotonic nanoseconds.

        Raises:
            ApiError: The message is not the next one of its batch, or a limit is exceeded.
        """
        batch, seq = self._find(found)
        ends = found.get(h.BATCH_COMMIT)
        if ends is not None and ends not in _COMMITS:
            self.drop(batch)
            raise api_error("JSAtomicPublishInvalidBatchCommit")
        level = found.get(h.REQUIRED_LEVEL)
        if level:
            if not is_level_supported(level):
                self._abandon_batch(batch, "unsupported")
                raise api_error("JSRequiredApiLevel")
            block = without(block, h.REQUIRED_LEVEL + b":")
        if seq != len(batch.columns) + 1:
            self._abandon_batch(batch, "incomplete")
            raise api_error("JSAtomicPublishIncompleteBatch")
        if ends == b"eob":
            return self._end(batch)
        self._add(batch, subject, block, payload)
        if ends:
            self.drop(batch)
            return batch
        # Moved to the end: this batch has the latest deadline now.
        self.open[batch.key] = self.open.pop(batch.key)
        batch.deadline = now + batch.limits.timeout
        return None

    def _find(self, found: dict[bytes, bytes]) -> tuple[OpenBatch, int]:
        """Return the batch of a message and the message's batch sequence.

        The first message opens the batch. Raises ApiError if the batch cannot be opened or is
        unknown.
        """
        name = found[h.BATCH_ID]
        if len(name) > LONGEST_ID:
            raise api_error("JSAtomicPublishInvalidBatchID")
        seq = h.number(found.get(h.BATCH_SEQ, b""))
        if seq < 0:
            raise api_error("JSAtomicPublishMissingSeq")
        batch = self.find(found)
        if batch is None:
            limits = self._quota.own()
            if seq != 1:
                # Unsigned arithmetic, as in nats-server: zero minus one is too large.
                size = (seq - (found.get(h.BATCH_COMMIT) == b"eob")) & _UNSIGNED
                if size > limits.messages:
                    raise api_error("JSAtomicPublishTooLargeBatch", size=limits.messages)
                raise api_error("JSAtomicPublishIncompleteBatch")
            if len(self.open) >= limits.per_stream or self._quota.batches >= limits.total:
                raise api_error("JSAtomicPublishTooManyInflight")
            key = batch_key(name, found.get(h.BATCH_AUTHOR, b""))
            batch = self.open[key] = OpenBatch(key, name, limits)
            self._quota.batches += 1
        return batch, seq

    def _end(self, batch: OpenBatch) -> OpenBatch:
        """Complete a batch at an end-of-batch marker, which is not stored itself.

        The message before the marker gets the commit header. Raises ApiError if there is no such
        message.
        """
        blocks = batch.columns.headers
        if not blocks:
            self._abandon_batch(batch, "incomplete")
            raise api_error("JSAtomicPublishIncompleteBatch")
        self.drop(batch)
        blocks[-1] = blocks[-1][:-2] + _COMMITTED
        batch.columns.count_bytes()
        return batch

    def _add(self, batch: OpenBatch, subject: bytes, block: bytes, payload: bytes) -> None:
        limits, columns = batch.limits, batch.columns
        size = len(subject) + len(block) + len(payload)
        if len(columns) >= limits.messages:
            self._abandon_batch(batch, "large")
            raise api_error("JSAtomicPublishTooLargeBatch", size=limits.messages)
        if self._quota.nbytes + size > limits.nbytes:
            self._abandon_batch(batch, "large")
            raise api_error("JSAtomicPublishTooLargeBatch", size=limits.nbytes)
        self._quota.nbytes += size
        columns.add(subject, b"", block, payload)

    def _abandon_batch(self, batch: OpenBatch, reason: str) -> None:
        self.drop(batch)
        self._abandon(batch.name, reason)

    def drop(self, batch: OpenBatch) -> None:
        """Remove an open batch, and subtract it from the counts of the node (`Quota`)."""
        del self.open[batch.key]
        columns = batch.columns
        self._quota.batches -= 1
        self._quota.nbytes -= sum(map(len, columns.subjects)) + columns.nbytes

    def clear(self) -> None:
        """Drop all batches without calling `abandon`, so without advisories."""
        for batch in list(self.open.values()):
            self.drop(batch)

    def deadline(self) -> int | None:
        """Return the earliest deadline of a batch, in monotonic nanoseconds (None: no batch)."""
        return next((batch.deadline for batch in self.open.values()), None)

    def expire(self, now: int) -> None:
        """Abandon the batches whose deadline is not after `now` (monotonic nanoseconds)."""
        while self.open:
            batch = next(iter(self.open.values()))
            if batch.deadline > now:
                return
            self._abandon_batch(batch, "timeout")


def batch_key(name: bytes, author: bytes) -> bytes:
    """Return the key of an open batch. Batches of two authors differ, even with the same id.

    Args:
        name: The id of the batch.
        author: Secret id of the connection that publishes the batch (`core.pubsub.authored`). Empty
            if connections do not own their batches: then any client that knows the id continues the
            batch, as in nats-server.
    """
    return b"%b\r\n%b" % (author, name) if author else name  # an id contains no line end


def batch_name(key: bytes) -> bytes:
    """Return the batch id in a key of `batch_key`."""
    return key.rpartition(b"\r\n")[2]


def split_author(block: bytes) -> tuple[bytes, bytes]:
    """Return the author of a batch message, and its header block without the author's header.

    The author is the secret id of the connection that publishes the batch (b"": no such header).
    """
    if block.find(h.BATCH_AUTHOR) < 0:
        return b"", block
    return h.find(block, h.BATCH_AUTHOR) or b"", without(block, h.BATCH_AUTHOR + b":")


def ends_batch(block: bytes) -> bool:
    """Return whether a header block has a batch id and commits its batch."""
    if block.find(h.BATCH_COMMIT) < 0 or block.find(h.BATCH_ID) < 0:
        return False
    found = h.publish_headers(block)
    return bool(found.get(h.BATCH_ID)) and h.BATCH_COMMIT in found


def without(block: bytes, prefix: bytes) -> bytes:
    """Return a header block without the lines that begin with `prefix` (b"": none is left)."""
    lines = [line for line in block[:-4].split(b"\r\n") if not line.startswith(prefix)]
    return b"\r\n".join(lines) + b"\r\n\r\n" if len(lines) > 1 else b""


def quoted(name: bytes) -> bytes:
    """Return a batch id as nats-server writes it into JSON: quoted as a Go string."""
    text = name.decode(errors="surrogateescape")
    return "".join(map(_quoted, text)).encode()


def _quoted(char: str) -> str:
    stray = ord(char) - 0xDC00  # of a byte that is not valid UTF-8
    return f"\\x{stray:02x}" if 0x80 <= stray <= 0xFF else quote(char)[1:-1]
