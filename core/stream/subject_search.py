"""Finding the subjects that filters match without looking at all of them.

The subjects of an index are kept in sorted runs, made when the first wildcard asks and never
merged: what a filter can match lies between two places of each run, found by bisecting on what
stands before its first wildcard. Where that leaves many, what the filter says after its wildcards
is looked for in the text of the run. New subjects wait unsorted until the next question; subjects
that went stay in the runs and are recognized by their absence from the index.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from core.stream.purged import covered
from core.subjects.subject import (
    compile_filters,
    compile_reading,
    fixed_prefix,
    has_wildcard,
    matches,
)

RUN = 16_384
"""Subjects of a run, and looked at before somebody else gets a turn: some milliseconds."""
SMALL = 2048
"""Up to here, looking at every subject costs less than keeping runs."""
_FEW = 500
_MANY = 512
_SCANNED = 16
"""Names that one passes over in a text while looking at one."""


class SortedSubjects:
    """Sorted runs over the subjects of one index."""

    __slots__ = ("_runs", "_texts", "fresh", "ready")

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = []
        self._texts: dict[int, bytes] = {}
        self.fresh: list[bytes] = []
        self.ready = False

    def note(self, subjects: Sequence[bytes], known: Collection[bytes]) -> bool:
        """Take new subjects, before the index does; False when keeping them costs too much."""
        self.fresh += [subject for subject in subjects if subject not in known]
        return len(self.fresh) + len(self._runs) * RUN <= 2 * len(known) + 4 * RUN

    def sort(self, names: list[bytes]) -> Iterator[None]:
        """Make runs of names; yields after each."""
        for start in range(0, len(names), RUN):
            self._runs.append(sorted(names[start : start + RUN]))
            yield
        self.ready = True

    def settle(self) -> Iterator[None]:
        """Put the new subjects into runs; yields after each."""
        fresh, runs = self.fresh, self._runs
        while fresh:
            chunk = fresh[:RUN]
            if runs and len(runs[-1]) + len(chunk) <= RUN:
                runs[-1] = sorted((*runs[-1], *chunk))
                self._texts.pop(len(runs) - 1, None)
            else:
                runs.append(sorted(chunk))
            del fresh[:RUN]
            yield

    def starting_with(self, prefix: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield the runs with names that begin with a prefix: number, first place, end."""
        end = prefix[:-1] + bytes((prefix[-1] + 1,)) if prefix else b""  # of a dot, never of 0xff
        for number, run in enumerate(self._runs):
            low = bisect_left(run, prefix)
            if low < len(run) and (not prefix or run[low] < end):
                yield number, low, bisect_left(run, end, low) if prefix else len(run)

    def candidates(self, wild: dict[bytes, list[bytes]]) -> Iterator[list[bytes]]:
        """Yield the names that filters, by their fixed prefix, match; no slice is large."""
        gathered: list[bytes] = []
        work = 0
        for prefix, patterns in wild.items():
            piece = _longest_piece(patterns[0]) if len(patterns) == 1 else b""
            for number, low, end in self.starting_with(prefix):
                part = self._holding(number, piece) if piece and end - low >= _MANY else None
                if part is None:
                    part = self._runs[number][low:end]
                else:
                    work += (end - low) // _SCANNED
                work += len(part) + 1
                for some in _matching((part,), patterns):
                    gathered += some
                if work >= RUN:
                    yield gathered
                    gathered, work = [], 0
        yield gathered
        yield from _matching(_slices(self.fresh), list(chain(*wild.values())))

    def _holding(self, number: int, piece: bytes) -> list[bytes] | None:
        """Return the names of a run that hold a piece; None when they are too many to pick out.

        Names hold no line feeds, so that these part them in a text.
        """
        run = self._runs[number]
        text = self._texts.get(number)
        if text is None:
            text = self._texts[number] = b"\n%b\n" % b"\n".join(run)
        found: list[bytes] = []
        at = text.find(piece)
        while at >= 0:
            if len(found) * _SCANNED >= len(run):
                return None
            end = text.find(b"\n", at + 1)
            found.append(text[text.rfind(b"\n", 0, at) + 1 : end])
            at = text.find(piece, end)
        return found


class Searchable(ABC):
    """What the three forms of index have in common: their subjects can be searched."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: SortedSubjects | None = None

    @abstractmethod
    def subjects(self) -> Collection[bytes]:
        """Return the subjects: a dict, not to be changed."""

    def prepare(self, filters: Sequence[bytes]) -> Iterator[None]:
        """Get ready for a search; yields so that others may have a turn."""
        known = self.subjects()
        if len(known) <= SMALL or not any(has_wildcard(f) for f in filters):
            return
        if self.names is None:
            # From here on the index notes what is new, while the runs are made.
            self.names = names = SortedSubjects()
            yield from names.sort(list(known))
        elif self.names.ready and self.names.fresh:
            yield from self.names.settle()

    def search(self, filters: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the subjects that a filter matches, none twice, a slice of the work at a time.

        Without filters all. What comes or goes between two slices may or may not be there.
        """
        known = self.subjects()
        if not filters or b">" in filters:
            yield from _slices(list(known))
            return
        literals = [f for f in filters if not has_wildcard(f)]
        found = {f for f in literals if f in known}
        if found:
            yield list(found)
        wild: dict[bytes, list[bytes]] = {}
        for pattern in filters:
            if pattern not in found and has_wildcard(pattern):
                wild.setdefault(fixed_prefix(pattern), []).append(pattern)
        if not wild:
            return
        names = self.names
        if names is not None and names.ready:
            candidates = names.candidates(wild)
        else:
            candidates = _matching(_slices(list(known)), list(chain(*wild.values())))
        for some in candidates:
            here = [s for s in dict.fromkeys(some) if s not in found and s in known]
            found.update(here)
            yield here

    def covered(self, pattern: bytes) -> list[bytes]:
        """Return the subjects that go when a filter is purged, in one go."""
        for _ in self.prepare((pattern,)):
            pass
        found: list[bytes] = []
        for part in self.search((pattern,)):
            found += covered(part, pattern)
        return found

    def passes_over(self, pattern: bytes) -> bool:
        """Say whether a purge of a filter leaves a subject that the filter matches, in one go.

        Storage cannot finish such a purge later: its rule for filters is that of subscriptions.
        """
        match = compile_reading([pattern])
        if match is None or b"*" not in pattern:
            return False
        for _ in self.prepare((pattern,)):
            pass
        found = (subject for part in self.search((pattern,)) for subject in part)
        return any(b">" in subject and not match(subject) for subject in found)


def _longest_piece(pattern: bytes) -> bytes:
    """Return the longest of the pieces that every match has after its first wildcard; maybe none.

    As it stands in a text of names: a line feed is behind the last token.
    """
    pieces: list[list[bytes]] = []
    tokens: list[bytes] = []
    for token in pattern.split(b"."):
        if token in (b"*", b">"):
            pieces.append(tokens)
            tokens = []
        else:
            tokens.append(token)
    ends = b".%b\n" % b".".join(tokens) if tokens else b""
    return max((ends, *(b".%b." % b".".join(each) for each in pieces[1:] if each)), key=len)


def _matching(parts: Iterable[list[bytes]], patterns: list[bytes]) -> Iterator[list[bytes]]:
    match: Callable[[bytes], bool] | None = None
    for part in parts:
        if match is None and len(part) * len(patterns) < _FEW:
            # Compiling an expression costs more than these comparisons.
            yield [s for s in part if any(matches(s, pattern) for pattern in patterns)]
            continue
        match = match or compile_filters(patterns) or bool
        yield list(filter(match, part))


def _slices(names: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(names), RUN):
        yield names[start : start + RUN]
