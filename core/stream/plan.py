"""What one batch of publishes makes of a stream: decided first, committed next, then applied."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.stream.expiry import Due, Expiry
from core.stream.fast_state import FastChanges
from core.stream.index import HistoryIndex, LastIndex, LogIndex
from core.stream.ledger import LedgerWrite
from core.stream.schedules import Pending


@dataclass(slots=True, frozen=True)
class Position:
    """How far a source has been copied: the last sequence of that incarnation of its origin."""

    key: str
    seq: int
    identity: str


class StreamPlan(Struct, frozen=True):
    """Rows to add, rows to drop, the head that results, and what to say after COMMIT.

    `segment` holds the rows to write (None: none). `removed` are (sequence, subject, size) of
    committed messages that this plan takes out; those in `erased` must be deleted in the same
    transaction, because no later leader could derive it; a purge by filter too large for that is
    recorded instead (`purge_filters`, `purge_up_to`).
    """

    before: int
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    nbytes: int
    segment: Segment | None
    # All that was accepted, also what the batch itself supersedes; kept for who republishes it.
    accepted: Segment | None
    sizes: Sequence[int]
    removed: list[tuple[int, bytes, int]]
    erased: list[int]
    # Sequences of `removed` that newer messages of their subjects replace: written with the plan,
    # for readers of storage, until their rows are deleted.
    replaced: list[int]
    # Whether no row waits for its deletion any more that an earlier plan named as replaced.
    ends_replaced: bool
    # Of `removed`, the first so many leave because their time has come, as `due` shows.
    expired: int
    due: Due | None
    # New queues of a stream that begins to let messages expire.
    expiry: Expiry | None
    purged_below: int
    # What the subjects will be: after a purge that leaves some, or under another limit.
    index: LogIndex | LastIndex | HistoryIndex | None
    # A configuration that takes effect with this plan.
    config: StreamConfig | None
    # The new last sequence of subjects that lose theirs and have others.
    last_seqs: list[tuple[bytes, int]]
    # What was purged or rolled up: a subject or filter (empty: all), and the first sequence that
    # still has it (0: none).
    purges: list[tuple[bytes, int]]
    purge_filters: tuple[bytes, ...]
    purge_up_to: int
    # Where the sources of the stream stand with this plan.
    positions: list[Position]
    # What the ledger of transactions says of the plan's rows, or begins to say.
    ledger: list[LedgerWrite]
    # Schedules whose outputs are in the plan, and when they come due next.
    firings: list[Pending]
    # What becomes of fast-ingest batches, if any message is of one.
    fast: FastChanges | None
    ids: list[tuple[bytes, int]]
    last_msg_id: bytes | None
    # One of the two: replies of accepted messages with contiguous sequences, or ready answers.
    acks: list[bytes]
    ack_first: int
    answers: list[tuple[bytes, bytes]]
    # How many messages were refused, by the number of the error.
    refused: dict[int, int]

    def unwritten_ids(self) -> list[tuple[bytes, int]]:
        """Return (id, sequence) of messages that are accepted and not written: limits, interest."""
        segment = self.segment
        if not self.ids or self.rows == self.last_seq - self.before:
            return []
        seqs = frozenset(() if segment is None else segment.seqs)
        return [(msg_id, seq) for msg_id, seq in self.ids if seq not in seqs]

    @property
    def rows(self) -> int:
        """How many rows the plan adds."""
        return 0 if self.segment is None else len(self.segment)

    @property
    def record(self) -> int:
        """The number under which `replaced` is written: it grows with the plans of a stream.

        A plan without messages has the number after that of the plan before it.
        """
        return 2 * self.last_seq + (self.last_seq == self.before)

    @property
    def changes_head(self) -> bool:
        """Whether there is anything to commit."""
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
    """A plan while it is decided. `build` makes the plan of it; nothing changes it from then on."""

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
        """Count a message that is answered with an error."""
        self.refused[code] = self.refused.get(code, 0) + 1

    def build(self) -> StreamPlan:
        """Return the plan."""
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
