"""The services that the streams and consumers of a node share."""

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
    """A consumer whose dead letters are to be stored."""

    name: str
    machine: ConsumerMachine
    closed: bool
    dead_letters_due: int
    """The number of the newest dead letter that a committed state contains. A crash may repeat
    later ones, so that their messages would get a second dead letter."""

    @property
    def log(self) -> StreamLog:
        """The log of its stream."""
        ...

    def remove_dead_letters(self, through: int) -> None:
        """Remove the stored dead letters, up to a number."""
        ...


class DeadLetterStore(Protocol):
    """Stores dead letters (`core.jetstream.dead_letters.storing.DeadLetters`)."""

    def schedule(self, consumer: DeadLetterSource) -> None:
        """Schedule the storing of a consumer's due dead letters."""
        ...

    async def await_stored(self, consumer: DeadLetterSource) -> None:
        """Wait until the dead letters of a consumer are stored, for a limited time."""
        ...


TAIL_BYTES = 64 << 20


@dataclass(slots=True)
class Services:
    """The services of a node that leads, created once for all its streams.

    Attributes:
        cluster: The nodes that could lead; None: this server runs alone.
        groups: Returns the lease groups that this node owns.
        committer: The group committer.
        max_payload: Returns the largest payload in bytes that clients may publish.
        begin_backpressure: Called to pause reading from busy publishers (backpressure).
        unstored_copies: Count of messages that mirrors and sources could not store, by
            `err_code`.
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
        """The streams of all nodes."""
        return self.directory_follower.directory
