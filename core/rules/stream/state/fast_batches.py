"""The state of open fast-ingest batches (ADR-50), and the changes that a commit makes to them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class FastBatch:
    """An open fast-ingest batch: its publisher has not ended it.

    Attributes:
        name: Its key (`batch_key`): batch id and author.
        flow: The largest number of messages that may share an acknowledgement.
        keeps: Whether it continues after a gap or a refused message.
        every: Messages per acknowledgement at present.
        seq: Batch sequence of its last message.
        stored: Stream sequence of its last stored message.
        acked: Batch sequence up to which acknowledgements were sent.
        deadline: Time at which it is dropped, in monotonic nanoseconds.
        is_mute: Whether its messages get no further answers.
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
    """The changes that one plan (effect of a batch of publishes) makes to open fast batches.

    Attributes:
        since: Count of the times at which all batches had been dropped when the plan was decided.
            If it differs at COMMIT, the changes are ignored.
        open: The new state of batches, in the order of their deadlines.
        ended: Keys of batches that are no longer open.
    """

    since: int
    open: dict[bytes, FastBatch] = field(default_factory=dict)
    ended: set[bytes] = field(default_factory=set)
