"""Searching the subjects that filters match, without visiting all subjects of a stream.

The subjects of an index are kept in sorted runs (lists). The runs are made at the first search with
a wildcard; only the last one grows later. In each run, the fixed prefix of a filter bounds a range,
found by bisection. In a large range, the longest literal part after the first wildcard is searched
in the text of the run. New subjects stay unsorted until the next search. Removed subjects stay in
the runs, and are recognized by their absence from the index.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from core.rules.stream.state.wildcard_purges import covered
from core.subjects.subject import (
    compile_filters,
    compile_reading,
    fixed_prefix,
    has_wildcard,
    matches,
)

RUN = 16_384
"""Subjects in a run, and subjects visited between two yields: some milliseconds of work."""
SMALL = 2048
"""Number of subjects up to which visiting each one costs less than keeping runs."""
_FEW = 500
_MANY = 512
_SCANNED = 16
"""Number of names that a text search passes in the time in which a loop visits one."""


class SortedSubjects:
    """The sorted runs (lists) of the subjects of one subject index.

    Attributes:
        fresh: New subjects that are not in a run yet.
        ready: True once the first runs are made.
    """

    __slots__ = ("_runs", "_texts", "fresh", "ready")

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = []
        self._texts: dict[int, bytes] = {}
        self.fresh: list[bytes] = []
        self.ready = False

    def note(self, subjects: Sequence[bytes], known: Collection[bytes]) -> bool:
        """Add subjects that the index is about to get; they stay unsorted until the next search.

        Returns False if the sorted lists use too much memory and have to be dropped.
        """
        self.fresh += [subject for subject in subjects if subject not in known]
        return len(self.fresh) + len(self._runs) * RUN <= 2 * len(known) + 4 * RUN

    def sort(self, names: list[bytes]) -> Iterator[None]:
        """Make sorted runs (lists) of `names`.

        Yields after each run, so that other tasks may run.
        """
        for start in range(0, len(names), RUN):
            self._runs.append(sorted(names[start : start + RUN]))
            yield
        self.ready = True

    def frozen(self) -> Iterator[None]:
        """Move new subjects into sorted runs (lists).

        Yields after each run, so that other tasks may run.
        """
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
        """Yield the ranges of names that begin with a prefix, one for each sorted run (list).

        A range is (index of the run, first index, end index).
        """
        end = prefix[:-1] + bytes((prefix[-1] + 1,)) if prefix else b""  # ends in a dot, not 0xff
        for number, run in enumerate(self._runs):
            low = bisect_left(run, prefix)
            if low < len(run) and (not prefix or run[low] < end):
                yield number, low, bisect_left(run, end, low) if prefix else len(run)

    def candidates(self, wild: dict[bytes, list[bytes]]) -> Iterator[list[bytes]]:
        """Yield the names that match filters, in lists.

        `wild` maps the fixed prefix of filters to the filters. Removed names may be included.
        """
        gathered: list[bytes] = []
        work = 0
        for prefix, patterns in wild.items():
            piece = _longest_piece(patterns[0]) if len(patterns) == 1 else b""
            for number, low, end in self.starting_with(prefix):
                part = self._containing(number, piece) if piece and end - low >= _MANY else None
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

    def _containing(self, number: int, piece: bytes) -> list[bytes] | None:
        """Return the names in sorted run `number` that contain `piece` (None: too many to collect).

        The text that is searched has one name per line; names contain no line feed.
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
    """The search of subjects, common to the three kinds of subject index."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: SortedSubjects | None = None

    @abstractmethod
    def subjects(self) -> Collection[bytes]:
        """Return the subjects of the index as a dict; do not change it."""

    def prepare(self, filters: Sequence[bytes]) -> Iterator[None]:
        """Sort the subjects of the index, if a search for `filters` needs that.

        Yields between steps, so that other tasks may run.
        """
        known = self.subjects()
        if len(known) <= SMALL or not any(has_wildcard(f) for f in filters):
            return
        if self.names is None:
            # From here on, the index records new subjects while the runs are made.
            self.names = names = SortedSubjects()
            yield from names.sort(list(known))
        elif self.names.ready and self.names.fresh:
            yield from self.names.frozen()

    def search(self, filters: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the subjects that at least one filter matches, each once, in lists.

        Without filters all subjects match. A subject that is added or removed between two lists may
        or may not be included.
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
        """Return the subjects that a purge by filter `pattern` removes, in one step."""
        for _ in self.prepare((pattern,)):
            pass
        found: list[bytes] = []
        for part in self.search((pattern,)):
            found += covered(part, pattern)
        return found

    def passes_over(self, pattern: bytes) -> bool:
        """Return whether a purge by filter keeps a subject that matches the filter.

        Only a subject with wildcard characters can be such. Storage cannot finish such a purge
        later, because it matches filters as subscriptions do. The search is made in one step.
        """
        match = compile_reading([pattern])
        if match is None or b"*" not in pattern:
            return False
        for _ in self.prepare((pattern,)):
            pass
        found = (subject for part in self.search((pattern,)) for subject in part)
        return any(b">" in subject and not match(subject) for subject in found)


def _longest_piece(pattern: bytes) -> bytes:
    """Return the longest literal part of a filter after its first wildcard (b"": none).

    It is searched in a text with one subject per line, so a line feed follows the last token.
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
