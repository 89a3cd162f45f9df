"""The preconditions of a batch: the data of storage, consumers and node that its plan needs.

The state machine has no access to storage. All data that a decision needs beside the committed
state are read first, and passed to it as a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.model.row_limits import LARGEST_RECORD

LastMessages = Mapping[bytes, tuple[bytes, bytes]]
"""Header block and payload of the last message of each subject."""

StoredRows = Mapping[bytes, Sequence[tuple[int, int]]]
"""Pairs (sequence, size in bytes) of the stored messages of each subject, oldest first."""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The preconditions of one batch, beside the state of the stream.

    Attributes:
        last_messages: The last messages of the batch's subjects, in a stream of counters.
        replaced: The messages that roll-ups of the batch replace, where the index does not contain
            them.
        max_payload: Bytes that the server accepts in one message, headers and payload together.
        storage_left: Bytes that the node has left for all streams of this kind of storage (None: no
            limit).
        no_interest: Subjects of the batch that match no consumer, where interest decides which
            messages are stored (retention by interest).
    """

    last_messages: LastMessages = field(default_factory=dict)
    replaced: StoredRows = field(default_factory=dict)
    max_payload: int = LARGEST_RECORD
    storage_left: int | None = None
    no_interest: frozenset[bytes] = frozenset()


NO_PRECONDITIONS = Preconditions()
"""The preconditions of most batches: one object for all of them."""
