"""Atomic batches that are open: messages that wait for the one that commits them (ADR-50).

A message of a batch is only put aside; what it says is checked when the batch is complete, all
messages at once (`core.stream.atomic`). What is checked here is that the batch itself is in order:
its id, its sequence without gaps, its size, how many are open. A batch in disorder is dropped and
said to be abandoned. Nothing of an open batch is stored: it is lost with its node, and the client
learns of it by the error of the next message, or by none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.model.api_errors import api_error
from core.model.gojson import quote
from core.model.versions import is_level_supported
from core.protocol.messages import MessageColumns
from core.stream import headers as h

if TYPE_CHECKING:
    from core.model.account import ServerLimits

SECOND = 1_000_000_000
LONGEST_ID = 64
_UNSIGNED = (1 << 64) - 1
_COMMITS = (b"1", b"eob")
_COMMITTED = b"Nats-Batch-Commit: 1\r\n\r\n"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How many batches may be open, of how many messages each, and for how long (nanoseconds)
    without a further message; `nbytes` is what they may hold between them in memory.
    """

    per_stream: int = 50
    total: int = 1000
    messages: int = 1000
    timeout: int = 10 * SECOND
    nbytes: int = 256 << 20


def batch_limits(limits: ServerLimits) -> BatchLimits:
    """Return a server's limits for batches; what is not set is as usual."""
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
    """What the open batches of all streams of a node use together; `own` returns its limits.

    `fast` counts those of fast ingest, which hold no messages.
    """

    own: Callable[[], BatchLimits] = BatchLimits
    batches: int = 0
    nbytes: int = 0
    fast: int = 0


@dataclass(slots=True)
class OpenBatch:
    """The messages of a batch so far, under the limits of its beginning; `key` is its `batch_key`,
    `deadline` is monotonic nanoseconds.
    """

    key: bytes
    name: bytes
    limits: BatchLimits
    columns: MessageColumns = field(default_factory=MessageColumns)
    deadline: int = 0


class Staging:
    """The open batches of one stream.

    Args:
        quota: of the node.
        abandon: told of every batch that is dropped for its own fault: its id and the reason
            (incomplete, large, unsupported, timeout).
    """

    def __init__(self, quota: Quota, abandon: Callable[[bytes, str], None]) -> None:
        self._quota = quota
        self._abandon = abandon
        # By their keys, in the order of their deadlines.
        self.open: dict[bytes, OpenBatch] = {}

    def find(self, found: dict[bytes, bytes]) -> OpenBatch | None:
        """Return the open batch that a message with these headers belongs to."""
        return self.open.get(batch_key(found[h.BATCH_ID], found.get(h.BATCH_AUTHOR, b"")))

    def take(
        self, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes], now: int
    ) -> OpenBatch | None:
        """Put a message of a batch aside; return the batch if it is complete with it.

        Args:
            found: the headers in `block`, with a batch id.
            now: monotonic nanoseconds.

        Raises ApiError when the message does not go with its batch.
        """
        batch, seq = self._find(found)
        ends = found.get(h.BATCH_COMMIT)
        if ends is not None and ends not in _COMMITS:
            self.drop(batch)
            raise api_error("JSAtomicPublishInvalidBatchCommit")
        level = found.get(h.REQUIRED_LEVEL)
        if level:
            if not is_level_supported(level):
                self._give_up(batch, "unsupported")
                raise api_error("JSRequiredApiLevel")
            block = without(block, h.REQUIRED_LEVEL + b":")
        if seq != len(batch.columns) + 1:
            self._give_up(batch, "incomplete")
            raise api_error("JSAtomicPublishIncompleteBatch")
        if ends == b"eob":
            return self._end(batch)
        self._add(batch, subject, block, payload)
        if ends:
            self.drop(batch)
            return batch
        # Behind all others: it will be the last to run out.
        self.open[batch.key] = self.open.pop(batch.key)
        batch.deadline = now + batch.limits.timeout
        return None

    def _find(self, found: dict[bytes, bytes]) -> tuple[OpenBatch, int]:
        """Return the batch that a message names, which its first message opens; and its place."""
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
                # Unsigned, as the reference server counts: nothing less one is too large.
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
        """Complete a batch whose last message was the one before; it is marked as the last."""
        blocks = batch.columns.headers
        if not blocks:
            self._give_up(batch, "incomplete")
            raise api_error("JSAtomicPublishIncompleteBatch")
        self.drop(batch)
        blocks[-1] = blocks[-1][:-2] + _COMMITTED
        batch.columns.count_bytes()
        return batch

    def _add(self, batch: OpenBatch, subject: bytes, block: bytes, payload: bytes) -> None:
        limits, columns = batch.limits, batch.columns
        size = len(subject) + len(block) + len(payload)
        if len(columns) >= limits.messages:
            self._give_up(batch, "large")
            raise api_error("JSAtomicPublishTooLargeBatch", size=limits.messages)
        if self._quota.nbytes + size > limits.nbytes:
            self._give_up(batch, "large")
            raise api_error("JSAtomicPublishTooLargeBatch", size=limits.nbytes)
        self._quota.nbytes += size
        columns.add(subject, b"", block, payload)

    def _give_up(self, batch: OpenBatch, reason: str) -> None:
        self.drop(batch)
        self._abandon(batch.name, reason)

    def drop(self, batch: OpenBatch) -> None:
        """Forget a batch."""
        del self.open[batch.key]
        columns = batch.columns
        self._quota.batches -= 1
        self._quota.nbytes -= sum(map(len, columns.subjects)) + columns.nbytes

    def clear(self) -> None:
        """Forget all batches; nobody is told."""
        for batch in list(self.open.values()):
            self.drop(batch)

    def deadline(self) -> int | None:
        """Return when the next batch runs out of time (None: there is none)."""
        return next((batch.deadline for batch in self.open.values()), None)

    def expire(self, now: int) -> None:
        """Drop the batches that have waited too long for their next message."""
        while self.open:
            batch = next(iter(self.open.values()))
            if batch.deadline > now:
                return
            self._give_up(batch, "timeout")


def batch_key(name: bytes, author: bytes) -> bytes:
    """Return what an open batch is known by: batches of two authors are two, whatever their ids.

    `author` is empty where connections do not own their batches: as in the reference server,
    whoever knows the id of such a batch goes on with it.
    """
    return b"%b\r\n%b" % (author, name) if author else name  # no id has a line end


def batch_name(key: bytes) -> bytes:
    """Return the id of the batch that a `batch_key` was made for."""
    return key.rpartition(b"\r\n")[2]


def split_author(block: bytes) -> tuple[bytes, bytes]:
    """Return the author that a message of a batch has, if any, and its block without that."""
    if block.find(h.BATCH_AUTHOR) < 0:
        return b"", block
    return h.find(block, h.BATCH_AUTHOR) or b"", without(block, h.BATCH_AUTHOR + b":")


def ends_batch(block: bytes) -> bool:
    """Whether a header block is that of a message that commits a batch, as it should be."""
    if block.find(h.BATCH_COMMIT) < 0 or block.find(h.BATCH_ID) < 0:
        return False
    found = h.publish_headers(block)
    return bool(found.get(h.BATCH_ID)) and h.BATCH_COMMIT in found


def without(block: bytes, prefix: bytes) -> bytes:
    """Return a header block without the lines that begin with `prefix` (b"" if none are left)."""
    lines = [line for line in block[:-4].split(b"\r\n") if not line.startswith(prefix)]
    return b"\r\n".join(lines) + b"\r\n\r\n" if len(lines) > 1 else b""


def quoted(name: bytes) -> bytes:
    """Return a batch id as the reference server writes it into JSON: as Go quotes a string."""
    text = name.decode(errors="surrogateescape")
    return "".join(map(_quoted, text)).encode()


def _quoted(char: str) -> str:
    stray = ord(char) - 0xDC00  # of a byte that is no text
    return f"\\x{stray:02x}" if 0x80 <= stray <= 0xFF else quote(char)[1:-1]
