"""What storage, consumers and the node know about a batch before it is decided.

The machine holds no storage and asks nobody: what a decision depends on beside the committed state
is read before and given to it as a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.model.row_limits import LARGEST_RECORD

LastMessages = Mapping[bytes, tuple[bytes, bytes]]
"""Header block and payload of the last message of each subject."""

StoredRows = Mapping[bytes, Sequence[tuple[int, int]]]
"""(Sequence, size) of the stored messages of each subject, oldest first."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one batch is decided by, beside the state of the stream.

    Args:
        last_messages: Of the batch's subjects, in a stream of counters.
        replaced: The messages that roll-ups of the batch replace, where the index does not know
            them.
        max_payload: What the server takes in one message, headers and payload together.
        storage_left: Bytes that the node has left for all streams of this kind of storage (None:
            no limit).
        no_interest: Subjects of the batch that no consumer matches, where that decides what is
            stored (retention by interest).
    """

    last_messages: LastMessages = field(default_factory=dict)
    replaced: StoredRows = field(default_factory=dict)
    max_payload: int = LARGEST_RECORD
    storage_left: int | None = None
    no_interest: frozenset[bytes] = frozenset()


NO_FACTS = Facts()
"""The facts of most batches: one object for all of them."""
