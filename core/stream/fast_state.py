"""Fast-ingest batches that are open, as values: what a plan changes of them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class FastBatch:
    """A batch that is open: `name` is its `batch_key`, `seq` its last message, `stored` that
    message's stream sequence or an earlier one's, `acked` the message up to which acks went out,
    `every` how many make the next one due; `deadline` is monotonic nanoseconds.
    """

    name: bytes
    flow: int
    keeps: bool
    every: int
    seq: int = 0
    stored: int = 0
    acked: int = 0
    deadline: int = 0
    is_mute: bool = False


@dataclass(slots=True)
class FastChanges:
    """What one plan makes of the open fast batches of its stream.

    Args:
        since: How often all batches had been forgotten when the plan was decided.
        open: Batches as they will be, in the order of their deadlines.
        ended: Names of batches that are no longer open.
    """

    since: int
    open: dict[bytes, FastBatch] = field(default_factory=dict)
    ended: set[bytes] = field(default_factory=set)
