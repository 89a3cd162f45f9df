"""StreamMachine: the committed state of a stream, and the rules of its limits.

A change is first decided as a plan, which leaves the state unchanged
(`core.rules.stream.plans.planner` decides publishes). After COMMIT the plan is applied with
`apply`. A plan whose commit failed is discarded.
"""

from collections import Counter
from collections.abc import Sequence

from core.model.segment import Segment
from core.model.stream import Discard, Storage, StreamConfig
from core.protocol.messages import MessageColumns
from core.rules.stream.counters import growth
from core.rules.stream.plan import PlanBuilder, StreamPlan
from core.rules.stream.preconditions import NO_PRECONDITIONS, Preconditions
from core.rules.stream.schedules.pending import Schedules
from core.rules.stream.state.dedup import DedupWindow
from core.rules.stream.state.expiry import Expiry
from core.rules.stream.state.oldest import OLDEST_MAX, OldestMessages
from core.rules.stream.state.record_size import LARGEST_OVERHEAD, record_size
from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex, make_index
from core.rules.stream.texts import json_text
from core.rules.stream.ttl import marker_reasons_of
from core.units import NANOS_PER_SECOND


class StreamMachine:
    """The committed state of one stream: bounds, counts, subjects, message ids, limits.

    `first_seq` is a lower bound of the stream's first sequence. It is exact if eviction or a purge
    set it. After a removal among the oldest messages, a later change raises it.
    """

    def __init__(self, config: StreamConfig, domain: str = "") -> None:
        self.domain = domain
        self.last_seq = max(config.first_seq, 1) - 1
        # 0: nothing was ever stored, purged or configured, and stream infos show it.
        self.first_seq = config.first_seq
        self.last_ts = 0
        self.msgs = 0
        self.bytes = 0
        self.last_msg_id = b""
        # Incremented by each change: values derived from the state are valid while it is the same.
        self.version = 0
        self.index: LogIndex | LastIndex | HistoryIndex = make_index(config.max_msgs_per_subject)
        self.dedup = DedupWindow(config.duplicate_window)
        self.oldest = OldestMessages(self.last_seq)
        # The expiry queues, if messages may have TTLs; else None.
        self.expiry: Expiry | None = None
        # The schedules to fire, if the stream allows them; else None.
        self.schedules: Schedules | None = None
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Apply a new configuration to the state.

        Does not change the kind of subject index: the plan of the update contains the new index
        (`StreamPlan.index`).
        """
        self.version += 1
        self.config = config
        self.limit = max(config.max_msgs_per_subject, 0)
        self.max_msgs = max(config.max_msgs, 0)
        self.max_bytes = max(config.max_bytes, 0)
        self._configure_expiry(config)
        self._configure_schedules(config)
        self.counts = config.allow_msg_counter
        self.on_file = config.storage is Storage.FILE
        self.record_size = record_size(config.storage)
        self.evicts = config.discard is Discard.OLD and bool(self.max_msgs or self.max_bytes)
        self.refuses = config.discard is Discard.NEW and bool(
            self.max_msgs or self.max_bytes or (self.limit and config.discard_new_per_subject)
        )
        self.json_name = json_text(config.name)
        # The text after `"stream":"` in acks, with the domain; errors contain only the name.
        self.ack_name = self.json_name
        if self.domain:
            self.ack_name += b'","domain":"' + json_text(self.domain)
        self.dedup.window = config.duplicate_window

    def _configure_expiry(self, config: StreamConfig) -> None:
        """Choose how messages expire: by `max_age` from the oldest on, or by queues for TTLs."""
        # Nanoseconds after which the oldest message is removed, checked with every batch.
        self.max_age = 0 if config.allow_msg_ttl else config.max_age
        if config.allow_msg_ttl and self.expiry is None:
            self.expiry = Expiry(config.max_age)
        elif self.expiry is not None:
            self.expiry.configure(config.max_age)
        # Lifetime of subject delete markers in nanoseconds (0: there are none); below, the least
        # TTL in seconds.
        self.marker_ttl = max(config.subject_delete_marker_ttl, 0)
        # Kinds of removals that leave markers, beside expiry by age.
        self.marker_reasons = marker_reasons_of(config) if self.marker_ttl else frozenset[bytes]()
        self.least_ttl = self.marker_ttl // NANOS_PER_SECOND if self.limit != 1 else 0

    def _configure_schedules(self, config: StreamConfig) -> None:
        """Create the schedules if the stream allows them, and set `ends_schedules`.

        Messages end schedules by their headers in streams with schedules, mirrors and streams with
        sources, provided that roll-ups are allowed.
        """
        if config.allow_msg_schedules and self.schedules is None:
            self.schedules = Schedules()
        copies = config.mirror is not None or bool(config.sources)
        rolls = config.allow_rollup_hdrs and not config.deny_purge
        self.ends_schedules = rolls and (copies or config.allow_msg_schedules)

    # -- restore -----------------------------------------------------------------------------

    def restore_head(
        self, *, first_seq: int, last_seq: int, last_ts: int, msgs: int, nbytes: int
    ) -> None:
        """Restore first and last sequence and counts of the stream from its head row in storage.

        `last_ts` is the time of the last message, in nanoseconds since the Unix epoch.
        """
        self.first_seq, self.last_seq, self.last_ts = first_seq, last_seq, last_ts
        self.msgs, self.bytes = msgs, nbytes
        self.oldest.through = max(first_seq - 1, 0)

    def restore_index(self, index: LogIndex | LastIndex | HistoryIndex, msgs: int) -> None:
        """Restore the subject index, and the number of messages in it."""
        self.index, self.msgs = index, msgs

    def recount(self, *, msgs: int | None = None, nbytes: int | None = None) -> None:
        """Replace the counts of the head row by those computed from the message rows.

        None: keep the count of the head row.
        """
        self.msgs = self.msgs if msgs is None else msgs
        self.bytes = self.bytes if nbytes is None else nbytes

    def restore_last_msg_id(self, msg_id: bytes) -> None:
        """Restore the message id of the last message (b"": it has none)."""
        self.last_msg_id = msg_id

    # -- preconditions -----------------------------------------------------------------------

    def lacks_oldest(
        self, columns: MessageColumns, now: int, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> bool:
        """Return whether the decision on a batch needs more of the oldest messages than memory has.

        They are needed to evict messages by a limit. `now` is in nanoseconds since the Unix epoch.
        """
        oldest = self.oldest
        if oldest.through >= self.last_seq:
            return False
        if self.max_age and oldest.newest_time() <= now - self.max_age:
            return True
        if not self.evicts:
            return False
        n = len(columns)
        if self.max_msgs and len(oldest) < self.msgs + n - self.max_msgs:
            return True
        if not self.max_bytes:
            return False
        return (
            oldest.nbytes
            < self.bytes + self.incoming_bytes(columns, preconditions) - self.max_bytes
        )

    # -- plans -------------------------------------------------------------------------------

    def unchanged(self, first_seq: int = 0) -> PlanBuilder:
        """Return a plan (effect of a change) that changes nothing, to which a decision adds.

        `first_seq` is a known first sequence; it is used if it is above the machine's lower bound.
        """
        return PlanBuilder(
            before=self.last_seq,
            first_seq=max(first_seq, self.first_seq),
            last_seq=self.last_seq,
            last_ts=self.last_ts,
            msgs=self.msgs,
            nbytes=self.bytes,
        )

    def fits_limits(self, columns: MessageColumns, preconditions: Preconditions) -> bool:
        """Return whether all messages of a batch of publishes surely fit into the stream's limits.

        For a stream with discard policy `new`; False requires a check of each message.
        """
        n = len(columns)
        if self.limit and self.config.discard_new_per_subject:
            return False
        if self.max_msgs and self.msgs + n > self.max_msgs:
            return False
        return (
            not self.max_bytes
            or self.bytes + self.incoming_bytes(columns, preconditions) <= self.max_bytes
        )

    def incoming_bytes(self, columns: MessageColumns, preconditions: Preconditions) -> int:
        """Return an upper bound of the bytes that a batch of publishes adds to the stream."""
        coming = columns.nbytes + sum(map(len, columns.subjects)) + LARGEST_OVERHEAD * len(columns)
        if self.counts:
            coming += len(columns) * growth(preconditions.last_messages, columns.headers)
        return coming

    def store(
        self,
        plan: PlanBuilder,
        subjects: list[bytes],
        headers: list[bytes | None] | None,
        payloads: list[bytes],
        now: int,
        dropped: set[int] | None = None,
        stamps: tuple[Sequence[int], Sequence[int]] | None = None,
        no_interest: frozenset[bytes] = frozenset(),
    ) -> None:
        """Add messages to a plan with sequences and times, and apply the limit per subject.

        Args:
            plan: The plan.
            subjects: The subjects.
            headers: The header blocks (None: no message has headers).
            payloads: The payloads.
            now: Wall-clock time in nanoseconds since the Unix epoch.
            dropped: Indices of messages that a roll-up of the same batch replaces. They use their
                sequence and are not written.
            stamps: Sequences and times of sourced messages of a mirror (None: assign new ones).
            no_interest: Subjects whose messages use their sequence and are not written.
        """
        n = len(payloads)
        if stamps is None:
            first = self.last_seq + 1
            ts = max(now, self.last_ts + 1)
            stamps = range(first, first + n), range(ts, ts + n)
        segment = Segment(*stamps, subjects, headers, payloads, 0)
        plan.first_seq = plan.first_seq or 1
        plan.last_seq, plan.last_ts = stamps[0][-1], stamps[1][-1]
        plan.segment = segment
        unwanted = {i for i, s in enumerate(subjects) if s in no_interest} if no_interest else None
        if self.config.republish is not None:
            plan.accepted = Segment(segment.seqs, segment.times, subjects, headers, payloads, 0)
            if unwanted:
                plan.accepted.keep([i for i in range(n) if i not in unwanted])
        if unwanted:
            dropped = unwanted.union(dropped or ())
        if dropped:
            segment.keep([i for i in range(n) if i not in dropped])
        if self.limit == 1:
            self._supersede_last(plan, segment)
        elif self.limit:
            self._supersede_history(plan, segment)
        else:
            columns = segment.subjects, segment.headers, segment.payloads
            segment.nbytes = self.record_size.sum_of_columns(*columns)
        plan.msgs += len(segment)
        plan.nbytes += segment.nbytes

    def _supersede_last(self, plan: PlanBuilder, segment: Segment) -> None:
        newest = dict(zip(segment.subjects, range(len(segment)), strict=True))
        if len(newest) < len(segment):
            segment.keep(sorted(newest.values()))
        self._size(plan, segment)
        if plan.purged_below:
            return
        gone = {seq for seq, _, _ in plan.removed}
        found = self.index.rows_of(newest)
        if gone:
            found = [row for row in found if row[0] not in gone]
        plan.removed += found
        plan.replaced += [row[0] for row in found]
        plan.msgs -= len(found)
        plan.nbytes -= sum([row[2] for row in found])

    def _supersede_history(self, plan: PlanBuilder, segment: Segment) -> None:
        limit, index = self.limit, self.index
        gone = {seq for seq, _, _ in plan.removed}
        drop: dict[bytes, int] = {}
        for subject, count in Counter(segment.subjects).items():
            over = (0 if plan.purged_below else index.count(subject)) + count - limit
            if over <= 0:
                continue
            stored = () if plan.purged_below else index.of_subject(subject) or ()
            if gone:
                stored = [row for row in stored if row[0] not in gone]
                over = len(stored) + count - limit
            for seq, size in stored[: max(over, 0)]:
                self.remove(plan, seq, subject, size)
                plan.replaced.append(seq)
            if over > len(stored):
                drop[subject] = over - len(stored)
        if drop:
            places = []
            for i, subject in enumerate(segment.subjects):
                left = drop.get(subject, 0)
                if left:
                    drop[subject] = left - 1
                else:
                    places.append(i)
            segment.keep(places)
        self._size(plan, segment)

    def _size(self, plan: PlanBuilder, segment: Segment) -> None:
        plan.sizes = self._sizes_of(segment)
        segment.nbytes = sum(plan.sizes)

    def _sizes_of(self, segment: Segment) -> list[int]:
        return self.record_size.of_columns(segment.subjects, segment.headers, segment.payloads)

    def remove(self, plan: PlanBuilder, seq: int, subject: bytes, size: int) -> None:
        """Add the removal of a committed message to the plan (effect) of a change."""
        plan.removed.append((seq, subject, size))
        plan.msgs -= 1
        plan.nbytes -= size

    # -- limits ------------------------------------------------------------------------------

    def evict(self, plan: PlanBuilder, now: int) -> None:
        """Add the removal of the oldest messages above a limit (count, bytes, age) to a plan.

        A plan is the effect of a change, which is then committed. `now` is in nanoseconds since the
        Unix epoch.
        """
        oldest = now - self.max_age if self.max_age else 0
        over_msgs = plan.msgs - self.max_msgs if self.evicts and self.max_msgs else 0
        over_bytes = plan.nbytes - self.max_bytes if self.evicts and self.max_bytes else 0
        if over_msgs <= 0 and over_bytes <= 0 and not oldest:
            return
        gone = {seq for seq, _, _ in plan.removed} if plan.removed else ()
        evicted: list[tuple[int, bytes, int]] = []
        for seq, subject, size, ts in () if plan.purged_below else self.oldest:
            if seq in gone:
                continue
            if over_msgs <= 0 and over_bytes <= 0 and ts > oldest:
                break
            evicted.append((seq, subject, size))
            over_msgs -= 1
            over_bytes -= size
        if evicted:
            plan.removed += evicted
            plan.msgs -= len(evicted)
            plan.nbytes -= sum([row[2] for row in evicted])
            plan.first_seq = max(plan.first_seq, evicted[-1][0] + 1)
        known = plan.purged_below > 0 or self.oldest.through >= self.last_seq
        if (over_msgs > 0 or over_bytes > 0) and known:
            self._evict_new(plan, over_msgs, over_bytes)

    def _evict_new(self, plan: PlanBuilder, over_msgs: int, over_bytes: int) -> None:
        """Drop the oldest new messages of a plan that exceeds the limits by itself.

        They are never written.
        """
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
        segment.keep(list(range(drop, len(segment))))
        segment.nbytes = sum(plan.sizes)

    # -- message ids -------------------------------------------------------------------------

    def ids_since(self, now: int) -> int | None:
        """Return the start of the duplicate window at `now` (None: no message ids are known).

        Both are in nanoseconds since the Unix epoch.
        """
        return now - self.dedup.window if self.dedup.window > 0 and len(self.dedup) else None

    # -- apply -------------------------------------------------------------------------------

    def apply(self, plan: StreamPlan) -> None:
        """Apply the plan (effect) of a change to the state, after its COMMIT."""
        self.version += 1
        self.first_seq = max(plan.first_seq, plan.purged_below)
        self.last_seq = plan.last_seq
        self.last_ts = plan.last_ts
        self.msgs = plan.msgs
        self.bytes = plan.nbytes
        if plan.expiry is not None:
            self.expiry = plan.expiry
        if plan.config is not None:
            self.configure(plan.config)
        self._replace(plan)
        segment = plan.segment
        if segment is not None and len(segment):
            self.index.add(segment.seqs, segment.subjects, plan.sizes)
            self._extend_oldest(segment, plan.sizes, plan.before)
        elif self.oldest.through >= plan.before:
            self.oldest.through = plan.last_seq
        if plan.removed:
            # After the additions: a subject with a newer message keeps its position.
            if plan.index is None:
                self.index.remove_all(plan.removed)
            if len(self.oldest):
                self.oldest.drop(plan.removed)
        for subject, seq in plan.last_seqs:
            self.index.set_last(subject, seq)
        if self.expiry is not None:
            self._apply_expiry(self.expiry, plan)
        if self.schedules is not None:
            self._apply_schedules(self.schedules, plan)
        if plan.ids:
            self.dedup.add(plan.ids, plan.last_ts)
        if plan.last_msg_id is not None:
            self.last_msg_id = plan.last_msg_id

    def _apply_expiry(self, expiry: Expiry, plan: StreamPlan) -> None:
        """Apply the removals and additions of a plan to the expiry queues."""
        if plan.purged_below:
            expiry.purged(plan.purged_below, everything=plan.index is None)
        if plan.due is not None:
            expiry.remove_due(plan.due)
        expiry.forget(plan.removed[plan.expired :])
        segment = plan.segment
        if segment is not None and len(segment):
            expiry.add(segment, plan.sizes or self._sizes_of(segment))

    def _apply_schedules(self, schedules: Schedules, plan: StreamPlan) -> None:
        """Apply the schedules that a plan begins, ends or moves to their next due time."""
        if plan.purged_below:
            schedules.purged(plan.purged_below)
        for pending in plan.firings:
            schedules.move(pending)
        if plan.segment is not None:
            schedules.stored(plan.segment)
        schedules.forget(plan.removed)

    def _replace(self, plan: StreamPlan) -> None:
        """Replace the subject index, and after a purge the list of oldest messages."""
        if plan.index is not None:
            self.index = plan.index
            if plan.purged_below:
                self.oldest = OldestMessages(plan.purged_below - 1)
        elif plan.purged_below:
            self.index = make_index(self.limit)
            self.oldest = OldestMessages(plan.before)

    def _extend_oldest(self, segment: Segment, sizes: Sequence[int], before: int) -> None:
        oldest = self.oldest
        if (
            oldest.through < before
            or not (self.max_age or self.evicts)
            or len(oldest) >= OLDEST_MAX
        ):
            return
        if not sizes:
            sizes = self._sizes_of(segment)
        oldest.extend(segment.seqs, segment.subjects, sizes, segment.times, self.last_seq)
