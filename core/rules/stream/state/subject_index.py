"""The subject index: the subjects of a stream with counts and sequences, in little memory.

There are three kinds with one interface, chosen by `max_msgs_per_subject`:

- `LogIndex` (no limit): subject -> count and last sequence, packed into one integer;
- `LastIndex` (limit 1, as in key-value buckets): subject -> sequence and size of its message;
- `HistoryIndex` (limit n > 1): subject -> sequences and sizes of its messages, oldest first.

Only committed messages are in an index: a plan is applied after COMMIT.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from core.rules.stream.state.subject_search import Searchable

_LAST_BITS = 44
_LAST_MASK = (1 << _LAST_BITS) - 1
_SIZE_BITS = 26
_SIZE_MASK = (1 << _SIZE_BITS) - 1


class SubjectIndex(Protocol):
    """The interface of the three kinds of subject index: counts and sequences per subject."""

    def __len__(self) -> int: ...

    def count(self, subject: bytes) -> int:
        """Return the number of messages of the subject (0: none)."""
        ...

    def last(self, subject: bytes) -> int:
        """Return the last sequence of the subject (0: none)."""
        ...

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield (subject, count of messages, last sequence) of all subjects."""
        ...

    def is_live(self, subject: bytes, seq: int) -> bool:
        """Return whether a stored message of the subject still belongs to the stream.

        `LogIndex` always returns True, because it knows only the last sequence of a subject.
        """
        ...

    def add(self, seqs: Sequence[int], subjects: Sequence[bytes], sizes: Sequence[int]) -> None:
        """Record newly stored messages, in ascending order of sequence; `sizes` are in bytes."""
        ...

    def remove_all(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        """Remove messages that were removed from the stream, as (sequence, subject, size)."""
        ...

    def set_last(self, subject: bytes, seq: int) -> None:
        """Set the last sequence of a subject that lost its newest message and has others."""
        ...

    def rows_of(self, subjects: Iterable[bytes]) -> list[tuple[int, bytes, int]]:
        """Return (sequence, subject, size in bytes) of all messages of the subjects.

        `LogIndex` returns none, because it does not know them.
        """
        ...

    def of_subject(self, subject: bytes) -> list[tuple[int, int]] | None:
        """Return (sequence, size in bytes) of a subject's messages, oldest first.

        None: the index does not know them; they have to be read from storage.
        """
        ...

    def prepare(self, filters: Sequence[bytes]) -> Iterator[None]:
        """Sort the subjects of the index, if a `search` for these filters needs that.

        Yields between steps, so that other tasks may run.
        """
        ...

    def search(self, filters: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the subjects that at least one filter matches, each once, in lists."""
        ...

    def covered(self, pattern: bytes) -> list[bytes]:
        """Return the subjects that a purge by filter `pattern` removes."""
        ...

    def passes_over(self, pattern: bytes) -> bool:
        """Return whether a purge by filter keeps a subject that matches the filter.

        Only a subject with wildcard characters can be such.
        """
        ...


class LogIndex(Searchable):
    """Count and last sequence of each subject, for a stream without a limit per subject."""

    __slots__ = ("_map",)

    def __init__(self) -> None:
        super().__init__()
        self._map: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._map)

    def subjects(self) -> Collection[bytes]:
        return self._map

    def count(self, subject: bytes) -> int:
        return self._map.get(subject, 0) >> _LAST_BITS

    def last(self, subject: bytes) -> int:
        return self._map.get(subject, 0) & _LAST_MASK

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        for subject, packed in self._map.items():
            yield subject, packed >> _LAST_BITS, packed & _LAST_MASK

    def is_live(self, subject: bytes, seq: int) -> bool:
        return True

    def add(self, seqs: Sequence[int], subjects: Sequence[bytes], sizes: Sequence[int]) -> None:
        known = self._map
        newest = dict(zip(subjects, seqs, strict=True))
        if self.names is not None and not self.names.note(list(newest), known):
            self.names = None
        if len(newest) == len(subjects):
            for subject, seq in newest.items():
                known[subject] = ((known.get(subject, 0) >> _LAST_BITS) + 1 << _LAST_BITS) | seq
            return
        for subject, count in Counter(subjects).items():
            total = (known.get(subject, 0) >> _LAST_BITS) + count
            known[subject] = (total << _LAST_BITS) | newest[subject]

    def load(self, rows: Iterable[tuple[bytes, int, int]]) -> None:
        """Add rows (subject, count, last sequence) from storage to the present contents."""
        known = self._map
        for subject, count, last in rows:
            packed = known.get(subject, 0)
            known[subject] = ((packed >> _LAST_BITS) + count << _LAST_BITS) | max(
                packed & _LAST_MASK, last
            )

    def remove_all(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        known, one = self._map, 1 << _LAST_BITS
        two = 2 * one
        for _, subject, _ in rows:
            packed = known.get(subject, 0)
            if packed >= two:
                known[subject] = packed - one
            elif packed:
                del known[subject]

    def shared(self, subjects: Sequence[bytes]) -> list[bytes]:
        """Return those of the subjects, all in the index, that have more than one message."""
        known, one = self._map, (2 << _LAST_BITS) - 1
        if max(map(known.__getitem__, subjects), default=0) <= one:
            return []
        return [subject for subject in subjects if known[subject] > one]

    def set_last(self, subject: bytes, seq: int) -> None:
        packed = self._map.get(subject)
        if packed is not None:
            self._map[subject] = (packed >> _LAST_BITS << _LAST_BITS) | seq

    def of_subject(self, subject: bytes) -> list[tuple[int, int]] | None:
        return None if subject in self._map else []

    def rows_of(self, subjects: Iterable[bytes]) -> list[tuple[int, bytes, int]]:
        return []


class LastIndex(Searchable):
    """The only message of each subject, for a stream with `max_msgs_per_subject` 1."""

    __slots__ = ("_map",)

    def __init__(self) -> None:
        super().__init__()
        self._map: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._map)

    def subjects(self) -> Collection[bytes]:
        return self._map

    def count(self, subject: bytes) -> int:
        return 1 if subject in self._map else 0

    def last(self, subject: bytes) -> int:
        return self._map.get(subject, 0) >> _SIZE_BITS

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        for subject, packed in self._map.items():
            yield subject, 1, packed >> _SIZE_BITS

    def is_live(self, subject: bytes, seq: int) -> bool:
        return self._map.get(subject, 0) >> _SIZE_BITS == seq

    def add(self, seqs: Sequence[int], subjects: Sequence[bytes], sizes: Sequence[int]) -> None:
        packed = [seq << _SIZE_BITS | size for seq, size in zip(seqs, sizes, strict=True)]
        if self.names is not None and not self.names.note(subjects, self._map):
            self.names = None
        self._map.update(zip(subjects, packed, strict=True))

    def remove_all(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        known = self._map
        for seq, subject, _ in rows:
            packed = known.get(subject)
            if packed is not None and packed >> _SIZE_BITS == seq:
                del known[subject]

    def set_last(self, subject: bytes, seq: int) -> None:
        raise AssertionError("a subject with one message has no other last message")

    def of_subject(self, subject: bytes) -> list[tuple[int, int]] | None:
        packed = self._map.get(subject)
        return [] if packed is None else [(packed >> _SIZE_BITS, packed & _SIZE_MASK)]

    def rows_of(self, subjects: Iterable[bytes]) -> list[tuple[int, bytes, int]]:
        known = self._map
        return [(known[s] >> _SIZE_BITS, s, known[s] & _SIZE_MASK) for s in subjects if s in known]


class HistoryIndex(Searchable):
    """All messages of each subject, for a stream with `max_msgs_per_subject` above 1."""

    __slots__ = ("_map",)

    def __init__(self) -> None:
        super().__init__()
        # sequence, size, sequence, size, ... oldest first
        self._map: dict[bytes, array[int]] = {}

    def __len__(self) -> int:
        return len(self._map)

    def subjects(self) -> Collection[bytes]:
        return self._map

    def count(self, subject: bytes) -> int:
        entry = self._map.get(subject)
        return 0 if entry is None else len(entry) >> 1

    def last(self, subject: bytes) -> int:
        entry = self._map.get(subject)
        return 0 if entry is None else entry[-2]

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        for subject, entry in self._map.items():
            yield subject, len(entry) >> 1, entry[-2]

    def is_live(self, subject: bytes, seq: int) -> bool:
        entry = self._map.get(subject)
        return entry is not None and seq in entry[::2]

    def add(self, seqs: Sequence[int], subjects: Sequence[bytes], sizes: Sequence[int]) -> None:
        known = self._map
        if self.names is not None and not self.names.note(subjects, known):
            self.names = None
        for seq, subject, size in zip(seqs, subjects, sizes, strict=True):
            entry = known.get(subject)
            if entry is None:
                known[subject] = array("Q", (seq, size))
            else:
                entry.append(seq)
                entry.append(size)

    def remove_all(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        for seq, subject, _ in rows:
            entry = self._map.get(subject)
            if entry is None:
                continue
            # Usually the oldest message is removed: the loop ends at its first step.
            for i in range(0, len(entry), 2):
                if entry[i] == seq:
                    del entry[i : i + 2]
                    break
            if not entry:
                del self._map[subject]

    def set_last(self, subject: bytes, seq: int) -> None:
        raise AssertionError("a history knows its last message")

    def of_subject(self, subject: bytes) -> list[tuple[int, int]]:
        entry = self._map.get(subject)
        return [] if entry is None else list(zip(entry[::2], entry[1::2], strict=True))

    def rows_of(self, subjects: Iterable[bytes]) -> list[tuple[int, bytes, int]]:
        return [(seq, s, size) for s in subjects for seq, size in self.of_subject(s)]


def make_index(max_msgs_per_subject: int) -> LogIndex | LastIndex | HistoryIndex:
    """Return an empty subject index of the kind that a limit per subject needs.

    `max_msgs_per_subject` 0 or less: no limit.
    """
    if max_msgs_per_subject == 1:
        return LastIndex()
    return HistoryIndex() if max_msgs_per_subject > 1 else LogIndex()
