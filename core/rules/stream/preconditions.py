"""The preconditions of a batch: data that the decision needs beside the stream's state.

Examples are the last messages of counters and the bytes that the node has left. They are read from
storage, consumers and node first, and passed to the decision as a value, since it does no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.model.row_limits import LARGEST_RECORD

LastMessages = Mapping[bytes, tuple[bytes, bytes]]
"""{subject: (header block, payload)} of the last message of each subject."""

StoredRows = Mapping[bytes, Sequence[tuple[int, int]]]
"""{subject: [(sequence, size in bytes), ...]} of the stored messages, oldest first."""


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The data that the decision on one batch needs beside the state of the stream.

    Attributes:
        last_messages: The last messages of the batch's subjects, in a stream of counters.
        replaced: The messages that roll-ups of the batch replace, if the subject index in memory
            does not contain them.
        max_payload: Bytes that the server accepts in one message, headers and payload together.
        storage_left: Bytes that the node has left for all streams of this kind of storage (None: no
            limit).
        no_interest: Subjects of the batch whose messages are not stored: with interest retention,
            those that match no consumer.
    """

    last_messages: LastMessages = field(default_factory=dict)
    replaced: StoredRows = field(default_factory=dict)
    max_payload: int = LARGEST_RECORD
    storage_left: int | None = None
    no_interest: frozenset[bytes] = frozenset()


NO_PRECONDITIONS = Preconditions()
"""The preconditions of most batches: empty, one object for all of them."""
