"""The objects that all streams and consumers of a node share: clock, storage, committer, timers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from core.cluster.view import ClusterView
from core.jetstream.log.tail import TailBudget
from core.jetstream.trust_gate import TrustGate
from core.rules.stream.batches.open_batches import Quota
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick
from core.storage.acknowledged import Acknowledged
from core.storage.interface import DirectoryStore, LogReader, Sweeper

if TYPE_CHECKING:
    from core.cluster.directory import StreamDirectory
    from core.cluster.directory_follower import DirectoryFollower
    from core.jetstream.group_committer import GroupCommitter
    from core.jetstream.janitor import Janitor
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.resources import Resources
    from core.jetstream.state_writer import StateWriter
    from core.jetstream.timers import Timers
    from core.rules.consumer.machine import ConsumerMachine


class DeadLetterSource(Protocol):
    """A consumer that has dead letters to store, as the interface for `DeadLetterStore`."""

    name: str
    machine: ConsumerMachine
    closed: bool
    dead_letters_due: int
    """The number of the newest dead letter in the consumer's committed state.

    Only dead letters up to this number are stored. A crash may give later ones another number, and
    their messages would get a second dead letter.
    """

    @property
    def log(self) -> StreamLog:
        """The log of the stream that the consumer reads."""
        ...

    def remove_dead_letters(self, through: int) -> None:
        """Remove stored dead letters from the state, up to number `through` inclusive."""
        ...


class DeadLetterStore(Protocol):
    """Stores dead letters in their target streams.

    Implemented by `core.jetstream.dead_letters.storing.DeadLetters`.
    """

    def schedule(self, consumer: DeadLetterSource) -> None:
        """Schedule the storing of the dead letters in a consumer's committed state."""
        ...

    async def await_stored(self, consumer: DeadLetterSource) -> None:
        """Wait until the dead letters of a consumer are stored, at most two seconds."""
        ...


TAIL_BYTES = 64 << 20


@dataclass(slots=True)
class Services:
    """The objects that all streams of a node share, created once when the node starts to lead.

    Attributes:
        clock: Wall-clock and monotonic time.
        loop_tick: Flushes the output of all sessions at the end of each pass of the event loop.
        reader: Reads messages from PostgreSQL.
        sweeper: Deletes rows of removed messages.
        directory_store: Stores streams and consumers in PostgreSQL.
        directory_follower: The stream directory in memory, kept equal to that in PostgreSQL.
        committer: The group committer: commits publishes and changes of streams.
        states: Writes the states of consumers.
        janitor: Schedules the deletion of rows.
        timers: The timer of the node.
        server_name: Name of this server.
        begin_backpressure: Called to pause reading from busy publishers.
        max_payload: Returns the largest payload in bytes that clients may publish.
        domain: JetStream domain; empty: none.
        cluster: The nodes that could lead a stream; None: this server has no peers.
        groups: Returns the lease groups that this node owns.
        resources: Limits on stored bytes; None: no limits.
        dead_letters: Stores dead letters; None: the account has none.
        acknowledged: State of streams that clients may have seen.
        trust: Whether the leader may answer from memory.
        batches: Limits on open atomic batches.
        unstored_copies: Count of messages that mirrors and sources could not store, by `err_code`.
        tails: Memory for the newest messages of all streams.
    """

    clock: Clock
    loop_tick: LoopTick
    reader: LogReader
    sweeper: Sweeper
    directory_store: DirectoryStore
    directory_follower: DirectoryFollower
    committer: GroupCommitter
    states: StateWriter
    janitor: Janitor
    timers: Timers
    server_name: str
    begin_backpressure: Callable[[], None]
    max_payload: Callable[[], int] = lambda: 1 << 20
    domain: str = ""
    cluster: ClusterView | None = None
    groups: Callable[[], Container[int]] = lambda: range(256)
    resources: Resources | None = None
    dead_letters: DeadLetterStore | None = None
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    trust: TrustGate = field(default_factory=TrustGate)
    batches: Quota = field(default_factory=Quota)
    unstored_copies: Counter[int] = field(default_factory=Counter)
    tails: TailBudget = field(default_factory=lambda: TailBudget(TAIL_BYTES))

    @property
    def directory(self) -> StreamDirectory:
        """The stream directory: streams and consumers of all nodes."""
        return self.directory_follower.directory
