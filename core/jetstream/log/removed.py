"""What is gone from a stream for every reader, although memory or storage still holds it.

    hidden ──▶ its row is deleted ──▶ no read of before is under way ──▶ forgotten

A removal is complete with the COMMIT that decides it: from then on readers leave the sequence
out. Its row is deleted later, in bulk, and the sequence is remembered until neither storage, nor a
read that began before the deletion, nor the tail can bring the message back.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from core.model.segment import Segment


class Removed:
    """The removed messages of one stream, by sequence.

    Attributes:
        hidden: what readers leave out. Sequences below the stream's first one need not be here.
        deleted: sequences whose rows are deleted, which a read that began before may still bring.
        generation: how often sequences were forgotten. Who looked at `hidden` before has to look
            again when it is another one.
    """

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self.generation = 0
        # In the order of removal, which is the order of deletion: what a newer message of its
        # subject replaced must not outlive that message in storage.
        # Each has the number of the record (`StreamPlan.record`) of the plan that removed it.
        self._rows: dict[int, int] = {}
        self._record = 0
        self._purged: list[int] = []
        self.deleted: set[int] = set()

    # -- removal -----------------------------------------------------------------------------

    def hide(self, seqs: Collection[int], record: int) -> None:
        """Let no reader see some messages; their rows wait to be deleted.

        Args:
            seqs: The messages.
            record: `StreamPlan.record` of the plan that removed them.
        """
        self.hidden.update(seqs)
        self._rows.update(dict.fromkeys(seqs, record))
        self._record = record

    def hide_purged(self, seqs: Iterable[int], rows: Iterable[int]) -> None:
        """The same for a purge by filter that was recorded; `rows` are all that it removes."""
        self.hidden.update(seqs)
        self._purged += sorted(rows)

    def clear(self) -> None:
        """Forget everything but recorded purges: nothing in the stream is older than a purge."""
        self.hidden.clear()
        self._rows.clear()

    # -- deletion ----------------------------------------------------------------------------

    @property
    def rows(self) -> Collection[int]:
        """The rows that wait to be deleted, but for those of recorded purges."""
        return self._rows.keys()

    @property
    def purges(self) -> bool:
        """Whether rows of recorded purges wait to be deleted."""
        return bool(self._purged)

    def next_rows(self, limit: int) -> tuple[list[int], int]:
        """Return which rows are to be deleted next, ascending.

        With them, the number of the first record of replaced rows that is not done then.
        """
        rows = list(islice(self._rows, limit))
        left = islice(self._rows.values(), limit, None)
        return sorted(rows), next(left, self._record + 1)

    def next_purged(self, limit: int) -> tuple[list[int], bool]:
        """Return which rows of recorded purges are next, and whether they are the last."""
        rows = self._purged[:limit]
        return rows, len(rows) == len(self._purged)

    def mark_deleted(self, rows: list[int]) -> None:
        """Take note that rows are deleted; `forget` follows when no read of before is left."""
        for seq in rows:
            self._rows.pop(seq, None)
        self.deleted.update(rows)

    def mark_purged_deleted(self, rows: list[int]) -> None:
        """The same for the first of the rows of recorded purges."""
        del self._purged[: len(rows)]
        self.deleted.update(rows)

    # -- forgetting --------------------------------------------------------------------------

    def forget(self, rows: list[int], tail_start: int) -> None:
        """Forget deleted rows, unless the tail holds their messages."""
        self.deleted.difference_update(rows)
        self.hidden.difference_update([seq for seq in rows if seq < tail_start])
        self.generation += 1

    def forget_dropped(self, tail_start: int) -> None:
        """Forget, after a recorded purge, what the tail dropped during it and storage lacks."""
        held = self.deleted.union(self._rows)
        self.hidden.difference_update(
            [seq for seq in self.hidden if seq < tail_start and seq not in held]
        )
        self.generation += 1

    def tail_dropped(self, segment: Segment) -> None:
        """Forget what only a segment held that the tail has just dropped."""
        if self.hidden and not self._purged:
            dropped = set(segment.seqs)
            self.hidden.difference_update(dropped.difference(self._rows, self.deleted))
            self.generation += 1
