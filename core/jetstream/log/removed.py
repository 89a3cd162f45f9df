"""The removed messages of a stream whose rows or memory are not freed yet.

    hidden ──▶ row deleted ──▶ reads that began before have ended ──▶ forgotten

From the COMMIT of a removal on, readers leave the sequence out (it is hidden). The janitor deletes
the row later. The sequence is remembered until the message can no longer be returned by storage, by
a read that began before the deletion, or by the tail (the newest messages in memory).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from core.model.segment import Segment


class Removed:
    """The removed messages of one stream, by sequence.

    Per message the calls are `hide` (at its COMMIT), `mark_deleted` (after the DELETE of its row)
    and `forget` (after the reads that began before the DELETE). A purge by filter is recorded in
    storage until its rows are deleted; it has its own methods, `hide_purged` and
    `mark_purged_deleted`.

    Attributes:
        hidden: Sequences that readers leave out; sequences below the stream's first may be missing
            here.
        deleted: Sequences whose rows are deleted, but which earlier reads may still return.
        generation: Count of calls that removed sequences from `hidden`. A reader that checked
            `hidden` before such a call checks it again.
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
            record: Number (`StreamPlan.record`) of the plan that removed them. Storage keeps the
                sequences of replaced messages under this number.
        """
        self.hidden.update(seqs)
        self._rows.update(dict.fromkeys(seqs, record))
        self._record = record

    def hide_purged(self, seqs: Iterable[int], rows: Iterable[int]) -> None:
        """Hide the messages of a purge by filter, and queue its rows for deletion.

        Storage records the purge until the rows are deleted.

        Args:
            seqs: Sequences to hide.
            rows: Sequences of all rows that the purge removes.
        """
        self.hidden.update(seqs)
        self._purged += sorted(rows)

    def clear(self) -> None:
        """Forget all removed messages after a purge of the whole stream.

        Messages of purges by filter that storage records stay.
        """
        self.hidden.clear()
        self._rows.clear()

    # -- deletion ----------------------------------------------------------------------------

    @property
    def rows(self) -> Collection[int]:
        """Sequences of rows that wait for deletion, without those of purges by filter."""
        return self._rows.keys()

    @property
    def purges(self) -> bool:
        """True while rows that a purge by filter removed wait for deletion."""
        return bool(self._purged)

    def next_rows(self, limit: int) -> tuple[list[int], int]:
        """Return (rows, record): the sequences of up to `limit` rows to delete next, ascending.

        Storage records for each plan (`StreamPlan.record`) the messages that newer ones replace,
        until their rows are deleted. Once the returned rows are deleted, the plans' records with
        numbers below `record` may be deleted.
        """
        rows = list(islice(self._rows, limit))
        left = islice(self._rows.values(), limit, None)
        return sorted(rows), next(left, self._record + 1)

    def next_purged(self, limit: int) -> tuple[list[int], bool]:
        """Return up to `limit` rows to delete next, of those that purges by filter removed.

        The second value is True if these are the last ones.
        """
        rows = self._purged[:limit]
        return rows, len(rows) == len(self._purged)

    def mark_deleted(self, rows: list[int]) -> None:
        """Record that rows were deleted; call `forget` once all earlier reads have ended."""
        for seq in rows:
            self._rows.pop(seq, None)
        self.deleted.update(rows)

    def mark_purged_deleted(self, rows: list[int]) -> None:
        """Record that rows which `next_purged` returned were deleted."""
        del self._purged[: len(rows)]
        self.deleted.update(rows)

    # -- forgetting --------------------------------------------------------------------------

    def forget(self, rows: list[int], tail_start: int) -> None:
        """Forget the removed messages whose `rows` are deleted, after all earlier reads.

        Sequences from `tail_start` on stay hidden, since the memory tail still has the messages.
        """
        self.deleted.difference_update(rows)
        self.hidden.difference_update([seq for seq in rows if seq < tail_start])
        self.generation += 1

    def forget_dropped(self, tail_start: int) -> None:
        """Forget the removed messages below sequence `tail_start` that no read can return any more.

        Called after the rows of all purges by filter were deleted.
        """
        held = self.deleted.union(self._rows)
        self.hidden.difference_update(
            [seq for seq in self.hidden if seq < tail_start and seq not in held]
        )
        self.generation += 1

    def tail_dropped(self, segment: Segment) -> None:
        """Forget the removed messages of `segment`, which is evicted from the memory tail.

        Those that storage, or a read in progress, may still return stay hidden.
        """
        if self.hidden and not self._purged:
            dropped = set(segment.seqs)
            self.hidden.difference_update(dropped.difference(self._rows, self.deleted))
            self.generation += 1
