"""The plan of a change to a stream: its exact effect, decided before it is committed.

Life cycle: a function of `core.rules.stream.plans` decides a `PlanBuilder`; `build` makes a
`StreamPlan`; the group committer writes it; after COMMIT `StreamMachine.apply` applies it in
memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.rules.stream.schedules.pending import Pending
from core.rules.stream.state.expiry import Due, Expiry
from core.rules.stream.state.fast_batches import FastChanges
from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex
from core.rules.stream.transactions.ledger import LedgerWrite


@dataclass(slots=True, frozen=True)
class Position:
    """The progress of a source: the last sequence stored from its origin.

    Attributes:
        key: Name of the source within its stream.
        seq: Last sequence of the origin that is covered.
        identity: Id of the origin, which differs after it was deleted and created again.
    """

    key: str
    seq: int
    identity: str


class StreamPlan(Struct, frozen=True):
    """The plan of one change: rows to add and to remove, new head row, answers after COMMIT.

    Attributes:
        before: Last sequence before the plan.
        first_seq, last_seq, last_ts, msgs, nbytes: The new values of the head row; the time is in
            nanoseconds since the Unix epoch.
        segment: The rows to write (None: none).
        removed: Tuples (sequence, subject, size in bytes) of committed messages that this plan
            removes.
        erased: Sequences of `removed` whose rows must be deleted in the same transaction, because
            no later leader could derive their removal.
        purge_filters: Instead of `erased`, the filters of a purge that is too large for one
            transaction.
        purge_up_to: The last sequence that `purge_filters` apply to.
        purged_below: All messages below this sequence are removed (0: none).
    """

    before: int
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    nbytes: int
    segment: Segment | None
    # All accepted messages, including those that the batch itself supersedes, for republishing.
    accepted: Segment | None
    sizes: Sequence[int]
    removed: list[tuple[int, bytes, int]]
    erased: list[int]
    # Sequences of `removed` that newer messages of their subjects replace. They are written with
    # the plan, for readers of storage, until their rows are deleted.
    replaced: list[int]
    # Whether all rows that earlier plans recorded as replaced are deleted by now.
    ends_replaced: bool
    # Number of messages at the beginning of `removed` that have expired, as in `due`.
    expired: int
    due: Due | None
    # New queues of a stream whose messages begin to expire.
    expiry: Expiry | None
    purged_below: int
    # The new subject index: after a purge that keeps subjects, or under another limit.
    index: LogIndex | LastIndex | HistoryIndex | None
    # A configuration that takes effect with this plan.
    config: StreamConfig | None
    # The new last sequence of subjects that lose their last message and have others.
    last_seqs: list[tuple[bytes, int]]
    # The subjects or filters (empty: all) that were purged or rolled up, each with the first
    # sequence that is kept (0: none).
    purges: list[tuple[bytes, int]]
    purge_filters: tuple[bytes, ...]
    purge_up_to: int
    # Positions of the sources of the stream after this plan.
    positions: list[Position]
    # Changes of the transaction ledger, for the rows of this plan.
    ledger: list[LedgerWrite]
    # Schedules whose messages are in the plan, with their next due times.
    firings: list[Pending]
    # Changes to fast-ingest batches (None: the plan has no messages of any).
    fast: FastChanges | None
    ids: list[tuple[bytes, int]]
    last_msg_id: bytes | None
    # Only one of the two is set: reply subjects of accepted messages with contiguous sequences, or
    # complete answers.
    acks: list[bytes]
    ack_first: int
    answers: list[tuple[bytes, bytes]]
    # Number of refused messages, by the number of the error.
    refused: dict[int, int]

    def unwritten_ids(self) -> list[tuple[bytes, int]]:
        """Return (message id, sequence) of accepted messages that the plan does not write.

        They are evicted at once by a limit, or no consumer matches them.
        """
        segment = self.segment
        if not self.ids or self.rows == self.last_seq - self.before:
            return []
        seqs = frozenset(() if segment is None else segment.seqs)
        return [(msg_id, seq) for msg_id, seq in self.ids if seq not in seqs]

    @property
    def rows(self) -> int:
        """Number of message rows that the plan adds."""
        return 0 if self.segment is None else len(self.segment)

    @property
    def record(self) -> int:
        """The number of the record in which storage keeps the sequences in `replaced`.

        `replaced` are messages that newer ones of their subjects replace; the record exists until
        their rows are deleted. The number grows with the plans of a stream. A plan without messages
        has the number after that of the plan before it.
        """
        return 2 * self.last_seq + (self.last_seq == self.before)

    @property
    def changes_head(self) -> bool:
        """True if the plan has to be committed; False if it only has answers."""
        return (
            self.last_seq != self.before
            or bool(self.removed)
            or self.purged_below > 0
            or self.config is not None
            or bool(self.positions)
            or bool(self.ledger)
            or bool(self.firings)
        )


@dataclass(slots=True)
class PlanBuilder:
    """A plan during its decision; it has the attributes of `StreamPlan`, which `build` returns."""

    before: int
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    nbytes: int
    segment: Segment | None = None
    accepted: Segment | None = None
    sizes: Sequence[int] = ()
    removed: list[tuple[int, bytes, int]] = field(default_factory=list)
    erased: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    ends_replaced: bool = False
    expired: int = 0
    due: Due | None = None
    expiry: Expiry | None = None
    purged_below: int = 0
    index: LogIndex | LastIndex | HistoryIndex | None = None
    config: StreamConfig | None = None
    last_seqs: list[tuple[bytes, int]] = field(default_factory=list)
    purges: list[tuple[bytes, int]] = field(default_factory=list)
    purge_filters: tuple[bytes, ...] = ()
    purge_up_to: int = 0
    positions: list[Position] = field(default_factory=list)
    ledger: list[LedgerWrite] = field(default_factory=list)
    firings: list[Pending] = field(default_factory=list)
    fast: FastChanges | None = None
    ids: list[tuple[bytes, int]] = field(default_factory=list)
    last_msg_id: bytes | None = None
    acks: list[bytes] = field(default_factory=list)
    ack_first: int = 0
    answers: list[tuple[bytes, bytes]] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)

    def count_refused(self, code: int) -> None:
        """Count a message that is refused with the error number `code` (`err_code`)."""
        self.refused[code] = self.refused.get(code, 0) + 1

    def build(self) -> StreamPlan:
        """Return the finished plan. Do not change the builder afterwards."""
        return StreamPlan(
            self.before,
            self.first_seq,
            self.last_seq,
            self.last_ts,
            self.msgs,
            self.nbytes,
            self.segment,
            self.accepted,
            self.sizes,
            self.removed,
            self.erased,
            self.replaced,
            self.ends_replaced,
            self.expired,
            self.due,
            self.expiry,
            self.purged_below,
            self.index,
            self.config,
            self.last_seqs,
            self.purges,
            self.purge_filters,
            self.purge_up_to,
            self.positions,
            self.ledger,
            self.firings,
            self.fast,
            self.ids,
            self.last_msg_id,
            self.acks,
            self.ack_first,
            self.answers,
            self.refused,
        )
