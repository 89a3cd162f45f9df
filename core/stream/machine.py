"""StreamMachine: the only holder of a stream's committed state, and the rules of publishing.

`decide` turns gathered publishes into a plan without changing anything; the runner commits the
plan and then calls `apply`. A plan that failed to commit is simply forgotten. The order of checks
is the reference server's, so that a client sees the same error when several apply.
"""

from collections import Counter
from collections.abc import Sequence

from core.model.stream import Discard, Storage, StreamConfig
from core.stream.dedup import DedupWindow
from core.stream.front import FRONT_MAX, FrontWindow
from core.stream.index import HistoryIndex, LastIndex, LogIndex, make_index
from core.stream.judge import MAX_SUBJECT, Judge
from core.stream.plan import Columns, StreamPlan
from core.stream.segment import Segment

_FILE_OVERHEAD = 30
_FILE_HEADER_OVERHEAD = 4
_MEMORY_OVERHEAD = 16


class StreamMachine:
    """Committed state of one stream.

    `first_seq` is a lower bound: no live message is below it. It is exact whenever eviction or a
    purge set it; after an interior removal at the front the runner tightens it on demand.
    """

    def __init__(self, config: StreamConfig) -> None:
        self.last_seq = max(config.first_seq, 1) - 1
        self.first_seq = self.last_seq + 1
        self.last_ts = 0
        self.msgs = 0
        self.bytes = 0
        self.last_msg_id = b""
        self.index: LogIndex | LastIndex | HistoryIndex = make_index(config.max_msgs_per_subject)
        self.dedup = DedupWindow(config.duplicate_window)
        self.front = FrontWindow(self.last_seq)
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Take a new configuration; the index form must fit it (the runner reloads it if not)."""
        self.config = config
        self.limit = max(config.max_msgs_per_subject, 0)
        self.max_msgs = max(config.max_msgs, 0)
        self.max_bytes = max(config.max_bytes, 0)
        self.max_age = config.max_age
        self.on_file = config.storage is Storage.FILE
        self.overhead = _FILE_OVERHEAD if self.on_file else _MEMORY_OVERHEAD
        self.evicts = config.discard is Discard.OLD and bool(self.max_msgs or self.max_bytes)
        self.plain = config.discard is Discard.OLD and not config.sealed and not self.limit > 1
        self.dedup.window = config.duplicate_window

    def size_of(self, subject: bytes, headers: bytes | None, payload_len: int) -> int:
        """Return what a message counts towards `bytes`."""
        if headers:
            more = len(headers) + (_FILE_HEADER_OVERHEAD if self.on_file else 0)
            return self.overhead + len(subject) + payload_len + more
        return self.overhead + len(subject) + payload_len

    # -- facts -------------------------------------------------------------------------------

    def front_deficit(self, columns: Columns, now: int) -> bool:
        """Tell whether `decide` needs more of the oldest messages than the window holds."""
        front = self.front
        if front.upto >= self.last_seq:
            return False
        if self.max_age and front.newest_time() <= now - self.max_age:
            return True
        if not self.evicts:
            return False
        n = len(columns)
        if self.max_msgs and len(front) < self.msgs + n - self.max_msgs:
            return True
        if not self.max_bytes:
            return False
        coming = columns.nbytes + sum(map(len, columns.subjects)) + 64 * n
        coming += sum(map(len, columns.headers))
        return front.nbytes < self.bytes + coming - self.max_bytes

    # -- decide ------------------------------------------------------------------------------

    def decide(
        self,
        columns: Columns,
        now: int,
        rollups: dict[bytes, list[tuple[int, int]]] | None = None,
    ) -> StreamPlan:
        """Return the plan for a batch.

        Args:
            columns: what was published, in order.
            now: wall-clock time in nanoseconds; stored times are strictly increasing from it.
            rollups: (sequence, size) of the messages of each subject that a roll-up of this
                batch names, where only storage knows them.
        """
        plan = StreamPlan(
            before=self.last_seq,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            last_ts=self.last_ts,
            msgs=self.msgs,
            nbytes=self.bytes,
        )
        if self.plain and not columns.headered and self._fits(columns):
            try:
                plan.texts = b"\n".join(columns.subjects).decode().split("\n")
            except UnicodeDecodeError:
                plan.texts = []
        if plan.texts and len(plan.texts) == len(columns):
            plan.acks = columns.replies
            plan.ack_first = self.last_seq + 1
            self.store(plan, columns.subjects, None, columns.payloads, now)
        elif len(columns):
            Judge(self, plan, rollups or {}).judge(columns, now)
        self._evict(plan, now)
        return plan

    def _fits(self, columns: Columns) -> bool:
        """Whether no message of a batch without headers can be refused."""
        limit = self.config.max_msg_size
        if limit >= 0 and max(map(len, columns.payloads), default=0) > limit:
            return False
        subjects = columns.subjects
        return max(map(len, subjects), default=0) <= MAX_SUBJECT and not any(
            b"\0" in subject for subject in set(subjects)
        )

    def store(
        self,
        plan: StreamPlan,
        subjects: list[bytes],
        headers: list[bytes | None] | None,
        payloads: list[bytes],
        now: int,
        dropped: set[int] | None = None,
    ) -> None:
        """Give every message a sequence and a time; drop what the per-subject limit supersedes.

        `dropped` are places of messages that a roll-up of the same batch replaces: they use up
        their sequence and are never written.
        """
        n = len(payloads)
        first = self.last_seq + 1
        ts = max(now, self.last_ts + 1)
        overhead = self.overhead
        nbytes = overhead * n + sum(map(len, subjects)) + sum(map(len, payloads))
        if headers is not None:
            more = _FILE_HEADER_OVERHEAD if self.on_file else 0
            nbytes += sum(len(block) + more for block in headers if block)
        segment = Segment(
            range(first, first + n), range(ts, ts + n), subjects, headers, payloads, nbytes
        )
        plan.last_seq = first + n - 1
        plan.last_ts = ts + n - 1
        plan.segment = segment
        if dropped:
            self._keep(plan, segment, [i for i in range(n) if i not in dropped])
            self._size(plan, segment)
        if self.limit == 1:
            self._supersede_last(plan, segment)
        elif self.limit:
            self._supersede_history(plan, segment)
        plan.msgs += len(segment)
        plan.nbytes += segment.nbytes

    def _supersede_last(self, plan: StreamPlan, segment: Segment) -> None:
        newest = dict(zip(segment.subjects, range(len(segment)), strict=True))
        if len(newest) < len(segment):
            self._keep(plan, segment, sorted(newest.values()))
        self._size(plan, segment)
        of_subject = self.index.of_subject
        if plan.purged_below:
            return
        gone = {seq for seq, _, _ in plan.removed}
        for subject in newest:
            for seq, size in of_subject(subject) or ():
                if seq not in gone:
                    self.remove(plan, seq, subject, size)

    def _supersede_history(self, plan: StreamPlan, segment: Segment) -> None:
        limit = self.limit
        gone = {seq for seq, _, _ in plan.removed}
        drop: set[int] = set()
        for subject, count in Counter(segment.subjects).items():
            stored = [
                row
                for row in self.index.of_subject(subject) or ()
                if row[0] not in gone and not plan.purged_below
            ]
            over = len(stored) + count - limit
            for seq, size in stored[: max(over, 0)]:
                self.remove(plan, seq, subject, size)
            over -= len(stored)
            if over > 0:
                places = [i for i, s in enumerate(segment.subjects) if s == subject]
                drop.update(places[:over])
        if drop:
            self._keep(plan, segment, [i for i in range(len(segment)) if i not in drop])
        self._size(plan, segment)

    def _size(self, plan: StreamPlan, segment: Segment) -> None:
        overhead = self.overhead
        if segment.headers is None:
            plan.sizes = [
                overhead + len(s) + len(p)
                for s, p in zip(segment.subjects, segment.payloads, strict=True)
            ]
        else:
            plan.sizes = [
                self.size_of(s, b, len(p))
                for s, b, p in zip(segment.subjects, segment.headers, segment.payloads, strict=True)
            ]
        segment.nbytes = sum(plan.sizes)

    def _keep(self, plan: StreamPlan, segment: Segment, places: list[int]) -> None:
        """Reduce a segment that is not yet committed to the messages at `places`."""
        segment.seqs = [segment.seqs[i] for i in places]
        segment.times = [segment.times[i] for i in places]
        segment.subjects = [segment.subjects[i] for i in places]
        segment.payloads = [segment.payloads[i] for i in places]
        if segment.headers is not None:
            segment.headers = [segment.headers[i] for i in places]
        plan.texts = [plan.texts[i] for i in places]

    def remove(self, plan: StreamPlan, seq: int, subject: bytes, size: int) -> None:
        """Take a committed message out of the stream."""
        plan.removed.append((seq, subject, size))
        plan.msgs -= 1
        plan.nbytes -= size

    # -- limits ------------------------------------------------------------------------------

    def _evict(self, plan: StreamPlan, now: int) -> None:
        """Drop the oldest messages that count, bytes or age no longer allow."""
        oldest = now - self.max_age if self.max_age else 0
        over_msgs = plan.msgs - self.max_msgs if self.evicts and self.max_msgs else 0
        over_bytes = plan.nbytes - self.max_bytes if self.evicts and self.max_bytes else 0
        if over_msgs <= 0 and over_bytes <= 0 and not oldest:
            return
        gone = {seq for seq, _, _ in plan.removed} if plan.removed else ()
        last = 0
        for seq, subject, size, ts in () if plan.purged_below else self.front:
            if seq in gone:
                continue
            if over_msgs <= 0 and over_bytes <= 0 and ts > oldest:
                break
            self.remove(plan, seq, subject, size)
            over_msgs -= 1
            over_bytes -= size
            last = seq
        if last:
            plan.first_seq = max(plan.first_seq, last + 1)
        known = plan.purged_below > 0 or self.front.upto >= self.last_seq
        if (over_msgs > 0 or over_bytes > 0) and known:
            self._evict_new(plan, over_msgs, over_bytes)

    def _evict_new(self, plan: StreamPlan, over_msgs: int, over_bytes: int) -> None:
        """The batch itself exceeds the limits: its oldest messages are never written."""
        segment = plan.segment
        if segment is None:
            return
        if not plan.sizes:
            self._size(plan, segment)
        drop = 0
        while drop < len(segment) and (over_msgs > 0 or over_bytes > 0):
            over_msgs -= 1
            over_bytes -= plan.sizes[drop]
            plan.msgs -= 1
            plan.nbytes -= plan.sizes[drop]
            drop += 1
        plan.first_seq = segment.seqs[drop - 1] + 1
        plan.sizes = plan.sizes[drop:]
        self._keep(plan, segment, list(range(drop, len(segment))))
        segment.nbytes = sum(plan.sizes)

    # -- apply -------------------------------------------------------------------------------

    def apply(self, plan: StreamPlan) -> list[bytes]:
        """Make a committed plan the state.

        Returns the subjects that lost their last message while they have others: the runner
        looks their new last sequence up in storage (`index.set_last`).
        """
        self.first_seq = max(plan.first_seq, plan.purged_below)
        self.last_seq = plan.last_seq
        self.last_ts = plan.last_ts
        self.msgs = plan.msgs
        self.bytes = plan.nbytes
        orphans = self._forget(plan)
        segment = plan.segment
        if segment is not None and len(segment):
            self.index.add(segment.seqs, segment.subjects, plan.sizes)
            self._extend_front(segment, plan.sizes, plan.before)
        elif self.front.upto >= plan.before:
            self.front.upto = plan.last_seq
        if plan.ids:
            self.dedup.add(plan.ids, plan.last_ts)
        if plan.last_msg_id is not None:
            self.last_msg_id = plan.last_msg_id
        return orphans

    def _forget(self, plan: StreamPlan) -> list[bytes]:
        orphans: list[bytes] = []
        remove, drop = self.index.remove, self.front.drop
        for seq, subject, _ in plan.removed:
            if remove(seq, subject):
                orphans.append(subject)
            drop(seq)
        if plan.index is not None:
            self.index = plan.index
            self.front = FrontWindow(plan.purged_below - 1)
        elif plan.purged_below > 0:
            self.index = make_index(self.limit)
            self.front = FrontWindow(plan.before)
        return orphans

    def _extend_front(self, segment: Segment, sizes: Sequence[int], before: int) -> None:
        front = self.front
        if front.upto < before or not (self.max_age or self.evicts) or len(front) >= FRONT_MAX:
            return
        if not sizes:
            sizes = [
                self.size_of(s, b, len(p))
                for s, b, p in zip(
                    segment.subjects,
                    segment.headers or [None] * len(segment),
                    segment.payloads,
                    strict=True,
                )
            ]
        front.load(
            zip(segment.seqs, segment.subjects, sizes, segment.times, strict=True), self.last_seq
        )
