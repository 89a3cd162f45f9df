"""The removed messages of a stream that memory or storage still holds.

    hidden ──▶ row deleted ──▶ reads that began before have ended ──▶ forgotten

A removal takes effect with its COMMIT: from then on readers leave the sequence out. The row is
deleted later, in bulk. The sequence is remembered until neither storage, nor a read that began
before the deletion, nor the tail can return the message.
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
        hidden: Sequences that readers leave out; those below the stream's first may be absent.
        deleted: Sequences whose rows are deleted, but which earlier reads may still return.
        generation: Count of changes that forget sequences. A reader that examined `hidden`
            before such a change has to examine it again.
    """

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self.generation = 0
        # Sequence -> record number (`StreamPlan.record`) of the plan that removed the message.
        # Rows are deleted in this order, that of removal: a replaced message must not outlive
        # in storage the newer message that replaced it.
        self._rows: dict[int, int] = {}
        self._record = 0
        self._purged: list[int] = []
        self.deleted: set[int] = set()

    # -- removal -----------------------------------------------------------------------------

    def hide(self, seqs: Collection[int], record: int) -> None:
        """Hide messages from readers, and queue their rows for deletion.

        Args:
            seqs: The sequences of the messages.
            record: `StreamPlan.record` of the plan that removed them.
        """
        self.hidden.update(seqs)
        self._rows.update(dict.fromkeys(seqs, record))
        self._record = record

    def hide_purged(self, seqs: Iterable[int], rows: Iterable[int]) -> None:
        """Hide the messages `seqs`, and queue all `rows` of a recorded purge for deletion."""
        self.hidden.update(seqs)
        self._purged += sorted(rows)

    def clear(self) -> None:
        """Forget all but recorded purges, after a purge of the whole stream."""
        self.hidden.clear()
        self._rows.clear()

    # -- deletion ----------------------------------------------------------------------------

    @property
    def rows(self) -> Collection[int]:
        """Sequences of rows that wait for deletion, except those of recorded purges."""
        return self._rows.keys()

    @property
    def purges(self) -> bool:
        """True while rows of recorded purges wait for deletion."""
        return bool(self._purged)

    def next_rows(self, limit: int) -> tuple[list[int], int]:
        """Return (rows, record): up to `limit` rows to delete next, ascending.

        Once they are deleted, all records of replaced rows numbered below `record` are obsolete.
        """
        rows = list(islice(self._rows, limit))
        left = islice(self._rows.values(), limit, None)
        return sorted(rows), next(left, self._record + 1)

    def next_purged(self, limit: int) -> tuple[list[int], bool]:
        """Return up to `limit` rows of recorded purges, and whether no other is left."""
        rows = self._purged[:limit]
        return rows, len(rows) == len(self._purged)

    def mark_deleted(self, rows: list[int]) -> None:
        """Record that rows are deleted; call `forget` once all earlier reads have ended."""
        for seq in rows:
            self._rows.pop(seq, None)
        self.deleted.update(rows)

    def mark_purged_deleted(self, rows: list[int]) -> None:
        """Record that the first `rows` of recorded purges are deleted."""
        del self._purged[: len(rows)]
        self.deleted.update(rows)

    # -- forgetting --------------------------------------------------------------------------

    def forget(self, rows: list[int], tail_start: int) -> None:
        """Forget deleted rows, unless the tail holds their messages."""
        self.deleted.difference_update(rows)
        self.hidden.difference_update([seq for seq in rows if seq < tail_start])
        self.generation += 1

    def forget_dropped(self, tail_start: int) -> None:
        """Forget sequences that neither the tail nor storage holds after a recorded purge."""
        held = self.deleted.union(self._rows)
        self.hidden.difference_update(
            [seq for seq in self.hidden if seq < tail_start and seq not in held]
        )
        self.generation += 1

    def tail_dropped(self, segment: Segment) -> None:
        """Forget the sequences of a dropped tail segment that storage does not hold either."""
        if self.hidden and not self._purged:
            dropped = set(segment.seqs)
            self.hidden.difference_update(dropped.difference(self._rows, self.deleted))
            self.generation += 1
