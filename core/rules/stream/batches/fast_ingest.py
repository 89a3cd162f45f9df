"""Fast-ingest batches: messages stored on arrival, acknowledged many at a time (ADR-50).

The tokens of a message's reply subject contain its batch and its sequence in the batch. The server
first answers with the number of messages per acknowledgement, then acknowledges each time that many
more are stored, and finally acknowledges the whole batch. A missing sequence is a gap; the first
message of a batch decides whether a gap ends the batch. The answers are part of the plan of their
messages, and sent after its COMMIT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.goinput import parse_wrapped
from core.model.api_errors import api_error
from core.model.versions import is_level_supported
from core.rules.stream import headers as h
from core.rules.stream.batches.open_batches import LONGEST_ID, batch_key, batch_name, quoted
from core.rules.stream.state.fast_batches import FastBatch, FastChanges
from core.rules.stream.texts import json_text, refusal
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.rules.stream.batches.open_batches import Quota
    from core.rules.stream.machine import StreamMachine

SUFFIX = b".$FI"
_START, _APPEND, _COMMIT, _END, _PING = range(5)
_TOKENS = 7
_USUAL_FLOW = 10
_MOST_UNACKED = 500
_LARGEST = (1 << 63) - 1
PER_STREAM = 1000
TOTAL = 50_000
_TIMEOUT = 10 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class FastMessage:
    """The data in the reply subject of a fast-ingest message.

    Attributes:
        name: The key of the batch (`batch_key`): batch id and author.
        flow: The largest number of messages that may share an acknowledgement.
        keeps: Whether the batch continues after a gap or a refused message.
        seq: The sequence in the batch, from 1 on. A ping has the sequence of the message before.
        op: 0 start, 1 append, 2 commit with this message, 3 commit without this message, 4 ping.
    """

    name: bytes
    flow: int
    keeps: bool
    seq: int
    op: int


def is_fast(replies: Sequence[bytes]) -> bool:
    """Return whether any of the messages may belong to a fast batch, by their reply subjects.

    False positives are possible.
    """
    return b"$FI" in b"".join(replies)


def parse_reply(reply: bytes, author: bytes = b"") -> FastMessage:
    """Parse the reply subject `<prefix>.<id>.<flow>.<gap>.<seq>.<op>.$FI` of a message.

    Args:
        reply: The reply subject.
        author: The author of the message; it is part of the key of the batch.

    Raises:
        ApiError: JSBatchPublishInvalidPattern for another form, JSBatchPublishInvalidBatchID for an
            id that is too long.
    """
    tokens = reply.rsplit(b".", _TOKENS - 1)
    if len(tokens) < _TOKENS:
        raise api_error("JSBatchPublishInvalidPattern")
    _, name, flow, gap, place, code, _ = tokens
    seq, op = h.number(place), h.number(code)
    is_form = gap in (b"ok", b"fail") and 0 < seq <= _LARGEST and 0 <= op <= _PING
    if not is_form or (seq == 1 and op in (_APPEND, _END)) or (seq > 1 and op == _START):
        raise api_error("JSBatchPublishInvalidPattern")
    if len(name) > LONGEST_ID:
        raise api_error("JSBatchPublishInvalidBatchID")
    key = batch_key(name, author)
    return FastMessage(key, _flow_of(flow), gap == b"ok", seq, op)


def _flow_of(digits: bytes) -> int:
    """Return the messages between two acknowledgements that a client asks for.

    As in nats-server, the number wraps at 64 bits. An unusable one is replaced by the default.
    """
    flow = parse_wrapped(digits) or 0
    return flow if 0 < flow < 1 << 63 else _USUAL_FLOW


class FastBatches:
    """The open fast-ingest batches of one stream, as of the last commit."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._clears = 0
        # In the order of their deadlines.
        self._open: dict[bytes, FastBatch] = {}

    def draft(self, machine: StreamMachine) -> FastDraft:
        """Return a copy of the batches' state that the decision on the next publishes may change.

        `apply` makes its changes final after COMMIT.
        """
        other_batches = self._quota.fast - len(self._open)
        return FastDraft(machine, self._open, FastChanges(self._clears), other_batches)

    def apply(self, changes: FastChanges) -> None:
        """Apply the changes of a plan to the open batches, after the COMMIT of its messages.

        They are ignored if `clear` was called since the plan was decided.
        """
        if changes.since != self._clears:
            return
        before = len(self._open)
        for name in changes.ended:
            self._open.pop(name, None)
        for name, batch in changes.open.items():
            self._open.pop(name, None)
            self._open[name] = batch
        self._quota.fast += len(self._open) - before

    def clear(self) -> None:
        """Drop all open fast-ingest batches.

        Later messages of these batches are answered with an error: unknown batch id.
        """
        self._clears += 1
        self._quota.fast -= len(self._open)
        self._open.clear()

    def deadline(self) -> int | None:
        """Return the earliest deadline of a batch, in monotonic nanoseconds (None: no batch)."""
        return next((batch.deadline for batch in self._open.values()), None)

    def expire(self, now: int) -> None:
        """Drop the batches whose deadline is not after `now` (monotonic nanoseconds)."""
        while self._open:
            batch = next(iter(self._open.values()))
            if batch.deadline > now:
                return
            del self._open[batch.name]
            self._quota.fast -= 1


class FastDraft:
    """The fast batches of a stream during the decision of a plan.

    Call `check`, then `accept`, for every message in order. If `accept` returns True, report the
    result with one of `stored`, `copied`, `refused` and `passed`. These methods append the answers
    for the publisher to `answers`.

    Args:
        machine: The state of the stream.
        committed: Its open batches, which are not changed.
        changes: The changes of the plan so far.
        other_batches: Number of open fast batches in other streams.
    """

    def __init__(
        self,
        machine: StreamMachine,
        committed: Mapping[bytes, FastBatch],
        changes: FastChanges,
        other_batches: int,
    ) -> None:
        self._machine = machine
        self._committed = committed
        self.changes = changes
        self._other_batches = other_batches
        self._count = len(committed)
        self.answers: list[bytes] = []

    def _find(self, name: bytes) -> FastBatch | None:
        """Return a copy of an open batch that may be changed (None: it is not open)."""
        batch = self.changes.open.get(name)
        if batch is None and name not in self.changes.ended:
            batch = self._committed.get(name)
            return None if batch is None else replace(batch)
        return batch

    def check(self, reply: bytes, block: bytes, payload: bytes, author: bytes = b"") -> FastMessage:
        """Return the data in a message's reply subject.

        Raises:
            ApiError: The message cannot belong to a batch, for example because the stream allows
                none or the batch is unknown.
        """
        config = self._machine.config
        if not config.allow_batched:
            raise api_error("JSBatchPublishDisabled")
        if config.sealed:
            raise api_error("JSStreamSealed")
        if 0 <= config.max_msg_size < len(block) + len(payload):
            raise api_error("JSStreamMessageExceedsMaximum")
        level = h.publish_headers(block).get(h.REQUIRED_LEVEL) if block else None
        is_served = not level or is_level_supported(level)
        message = parse_reply(reply, author)
        batch = self._find(message.name)
        if not is_served:
            if batch is not None:
                self._drop(batch)
            raise api_error("JSRequiredApiLevel")
        if batch is None:
            if message.seq > 1 or message.op == _PING:
                raise api_error("JSBatchPublishUnknownBatchID")
            if self._count >= PER_STREAM or self._other_batches + self._count >= TOTAL:
                raise api_error("JSBatchPublishTooManyInflight")
        return message

    def accept(self, message: FastMessage, now: int) -> bool:
        """Process a message's position in its batch; return whether to check and store the message.

        Returns False for pings, for an end without a message, and after a gap that ends the batch.
        `now` is in monotonic nanoseconds.
        """
        batch = self._find(message.name)
        if batch is None:
            batch = self._begin(message)
            self._renew(batch, now)
            return True
        self._renew(batch, now)
        if batch.is_mute:
            return False
        pings = message.op == _PING
        if pings and message.seq <= batch.seq:
            self._answer_acked(batch)
            return False
        seq = message.seq + pings
        if seq != batch.seq + 1:
            self.answers.append(b'{"type":"gap","last_seq":%d,"seq":%d}' % (batch.seq + 1, seq))
            if seq <= batch.seq or not batch.keeps:
                self._end(batch)
                return False
            batch.seq = seq - 1
        if pings:
            self._advance(batch)
            self._answer_acked(batch)
        elif message.op == _END:
            self._end(batch)
        else:
            return True
        return False

    def stored(self, message: FastMessage, seq: int) -> None:
        """Record that a message was accepted, with sequence `seq` of the stream."""
        batch = self.changes.open[message.name]
        batch.seq, batch.stored = message.seq, seq
        if message.op == _COMMIT:
            self._end(batch)
        elif self._advance(batch):
            self._answer_acked(batch)

    def following(self, replies: Sequence[bytes], blocks: Sequence[bytes], place: int) -> int:
        """Return how many messages from index `place` on continue the batch of message `place - 1`.

        They follow it without a gap, and have no headers, so that they need no further checks.
        """
        tokens = replies[place - 1].rsplit(b".", _TOKENS - 1)
        batch = self._find(tokens[1]) if len(tokens) == _TOKENS else None
        if batch is None or batch.is_mute or h.number(tokens[4]) != batch.seq:
            return 0
        line = b".".join(tokens[:4]).replace(b"%", b"%%") + b".%d.1" + SUFFIX
        seq, start, some = batch.seq + 1, place, 1
        while start < len(replies):
            found, headers = replies[start : start + some], blocks[start : start + some]
            wanted = [line % n for n in range(seq, seq + len(found))]
            if found != wanted or any(headers):
                rows = enumerate(zip(found, wanted, headers, strict=True))
                return start - place + next(i for i, (a, b, block) in rows if a != b or block)
            start, seq, some = start + len(found), seq + len(found), some * 2
        return start - place

    def stored_all(
        self, reply: bytes, count: int, seq: int, now: int
    ) -> Iterator[tuple[int, list[bytes]]]:
        """Record `count` accepted messages that follow the one with this reply subject.

        `seq` is the stream sequence of the last one, `now` monotonic nanoseconds. Yields a pair
        (index among them, answers) for each message after which an acknowledgement is due.
        """
        batch = self.changes.open[reply.rsplit(b".", _TOKENS - 1)[1]]
        self._renew(batch, now)
        before, last = batch.seq, batch.seq + count
        while batch.acked + batch.every <= last:
            batch.seq = batch.acked + batch.every
            self._advance(batch)
            self.answers = []
            self._answer_acked(batch)
            yield batch.seq - before - 1, self.answers
        batch.seq, batch.stored = last, seq

    def copied(self, message: FastMessage, seq: int) -> None:
        """Record a duplicate of a message that the stream has stored as `seq`."""
        batch = self.changes.open[message.name]
        batch.seq = message.seq
        if self._advance(batch):
            self._answer_acked(batch)
        if message.op != _COMMIT:
            return
        if message.seq == 1 and not batch.keeps:
            self._end(batch, b'%d,"duplicate": true' % seq)
        else:
            self._end(batch)

    def refused(self, message: FastMessage, error: ApiError) -> None:
        """Record that a message was refused.

        The message itself determines whether its batch continues, not the first message of the
        batch.
        """
        batch = self.changes.open[message.name]
        if message.seq == 1 and not message.keeps:
            self._drop(batch)
            self.answers.append(refusal(error, self._machine.json_name))
            return
        self.answers.append(
            b'{"type":"err","seq":%d,"error":{"code":%d,"err_code":%d,"description":"%b"}}'
            % (message.seq, error.code, error.err_code, json_text(error.description))
        )
        if message.op == _COMMIT or not message.keeps:
            self._end(batch)
        else:
            batch.seq = message.seq

    def passed(self, message: FastMessage, error: ApiError) -> None:
        """Record that a message was refused and its batch continues, whether or not `keeps` is set.

        nats-server does the same after a wrong last message id. If the message was to commit the
        batch, the batch gets no further answers.
        """
        batch = self.changes.open[message.name]
        batch.seq = message.seq
        batch.is_mute = message.op == _COMMIT
        self.answers.append(refusal(error, self._machine.json_name))

    def _drop(self, batch: FastBatch) -> None:
        """Remove a batch from the open ones."""
        self.changes.open.pop(batch.name, None)
        self.changes.ended.add(batch.name)
        self._count -= 1

    def _begin(self, message: FastMessage) -> FastBatch:
        every = 1 if self._count else min(message.flow, _MOST_UNACKED)
        batch = FastBatch(message.name, message.flow, message.keeps, every)
        self._count += 1
        if message.op == _START and not self._machine.config.no_ack:
            self._answer_acked(batch)
        return batch

    def _renew(self, batch: FastBatch, now: int) -> None:
        """Set a new deadline for a batch, and move it to the end of the order of deadlines.

        `now` is in monotonic nanoseconds.
        """
        self.changes.open.pop(batch.name, None)
        self.changes.open[batch.name] = batch
        batch.deadline = now + _TIMEOUT

    def _advance(self, batch: FastBatch) -> bool:
        """Return whether an acknowledgement of a batch is due.

        If so, record it, and move the batch's number of messages per acknowledgement (`every`)
        towards its share of `_MOST_UNACKED`.
        """
        times = (batch.seq - batch.acked) // batch.every
        if not times:
            return False
        batch.acked += times * batch.every
        share = max(min(batch.flow, _MOST_UNACKED // self._count), 1)
        if batch.every < share:
            batch.every = min(batch.every * 2, share)
        else:
            batch.every = max(batch.every // 2, share)
        return True

    def _answer_acked(self, batch: FastBatch) -> None:
        self.answers.append(b'{"type":"ack","seq":%d,"msgs":%d}' % (batch.acked, batch.every))

    def _end(self, batch: FastBatch, seq: bytes = b"") -> None:
        """Acknowledge a batch as a whole, and remove it from the open ones."""
        self._drop(batch)
        name, last = quoted(batch_name(batch.name)), seq or b"%d" % batch.stored
        self.answers.append(
            b'{"stream":"%b","seq":%b,"batch":"%b","count":%d}'
            % (self._machine.ack_name, last, name, batch.seq)
        )
