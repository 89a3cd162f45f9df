"""The oldest messages of a stream in memory, as many as its limits need.

Eviction by count, bytes or age needs subject and size of the oldest messages, which memory does not
hold for a long stream. A bounded number of them is kept here. More are loaded from storage when a
decision needs them (`StreamMachine.lacks_oldest`).
"""

from collections.abc import Iterable, Iterator, Sequence

OLDEST_MAX = 10_000


class OldestMessages:
    """The messages of a stream from its first sequence up to `through`, oldest first.

    Attributes:
        rows: Sequence -> (subject, size in bytes, nanoseconds since the Unix epoch).
        nbytes: Total size of these messages in bytes.
        through: All messages up to this sequence are included.
    """

    __slots__ = ("nbytes", "rows", "through")

    def __init__(self, through: int) -> None:
        self.rows: dict[int, tuple[bytes, int, int]] = {}
        self.nbytes = 0
        self.through = through

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, rows: Iterable[tuple[int, bytes, int, int]], through: int) -> None:
        """Add (sequence, subject, size, time) rows read from storage.

        Sizes are in bytes, times in nanoseconds since the Unix epoch. Afterwards all messages up to
        `through` are included.
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
        """Add newly stored messages; all messages up to `through` are then included."""
        self.rows.update(zip(seqs, zip(subjects, sizes, times, strict=True), strict=True))
        self.nbytes += sum(sizes)
        self.through = through

    def drop(self, gone: Iterable[tuple[int, bytes, int]]) -> None:
        """Remove messages that were removed from the stream, as (sequence, subject, size)."""
        pop = self.rows.pop
        for seq, _, size in gone:
            if pop(seq, None) is not None:
                self.nbytes -= size

    def __iter__(self) -> Iterator[tuple[int, bytes, int, int]]:
        for seq, (subject, size, ts) in self.rows.items():
            yield seq, subject, size, ts

    def newest_time(self) -> int:
        """Return the time of the newest of these messages (0: there are none).

        In nanoseconds since the Unix epoch.
        """
        return next(reversed(self.rows.values()))[2] if self.rows else 0
