"""What the streams and consumers of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.jetstream.log.tail import TailBudget
from core.runtime.clock import Clock
from core.runtime.turn import Turn
from core.storage.interface import Catalog, LogReader, Sweeper
from core.stream.batching import Quota

if TYPE_CHECKING:
    from core.jetstream.janitor import Janitor
    from core.jetstream.lane import Lane
    from core.jetstream.resources import Resources
    from core.jetstream.state_writer import StateWriter
    from core.jetstream.timers import Timers

TAIL_BYTES = 64 << 20


@dataclass(slots=True)
class Services:
    """The services of the node that leads, wired once for all its streams."""

    clock: Clock
    turn: Turn
    reader: LogReader
    sweeper: Sweeper
    catalog: Catalog
    lane: Lane
    states: StateWriter
    janitor: Janitor
    timers: Timers
    server_name: str
    press: Callable[[], None]
    max_payload: Callable[[], int] = lambda: 1 << 20
    domain: str = ""
    resources: Resources | None = None
    batches: Quota = field(default_factory=Quota)
    tails: TailBudget = field(default_factory=lambda: TailBudget(TAIL_BYTES))
