"""The oldest messages of a stream, as many as its limits need.

Eviction by count, bytes or age needs subject and size of the oldest messages, which memory does not
hold for a long log. The window holds a bounded number of them. The runner loads more from storage
when a plan needs them (`StreamMachine.lacks_oldest`).
"""

from collections.abc import Iterable, Iterator, Sequence

OLDEST_MAX = 10_000


class OldestMessages:
    """Every live message from the first sequence up to `through`, oldest first."""

    __slots__ = ("nbytes", "rows", "through")

    def __init__(self, through: int) -> None:
        self.rows: dict[int, tuple[bytes, int, int]] = {}
        self.nbytes = 0
        self.through = through

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, rows: Iterable[tuple[int, bytes, int, int]], through: int) -> None:
        """Add (sequence, subject, size, time) rows.

        The window then covers all sequences up to `through`.
        """
        known = self.rows
        for seq, subject, size, ts in rows:
            known[seq] = (subject, size, ts)
            self.nbytes += size
        self.through = through

    def extend(
        self,
        seqs: Sequence[int],
        subjects: Sequence[bytes],
        sizes: Sequence[int],
        times: Sequence[int],
        through: int,
    ) -> None:
        """Add messages that were stored after all those of the window."""
        self.rows.update(zip(seqs, zip(subjects, sizes, times, strict=True), strict=True))
        self.nbytes += sum(sizes)
        self.through = through

    def drop(self, gone: Iterable[tuple[int, bytes, int]]) -> None:
        """Remove messages that are gone, as tuples (sequence, subject, size)."""
        pop = self.rows.pop
        for seq, _, size in gone:
            if pop(seq, None) is not None:
                self.nbytes -= size

    def __iter__(self) -> Iterator[tuple[int, bytes, int, int]]:
        for seq, (subject, size, ts) in self.rows.items():
            yield seq, subject, size, ts

    def newest_time(self) -> int:
        """Return the time of the newest message in the window (0: the window is empty)."""
        return next(reversed(self.rows.values()))[2] if self.rows else 0
