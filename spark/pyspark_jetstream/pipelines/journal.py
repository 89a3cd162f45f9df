"""The journal of a pipeline: its progress in small files, two for each batch, beside its output.

A batch has a number and a range of sequences of each stream. The journal writes its entry twice: as
`N.begun.json` before the output of the batch is visible, and as `N.json` after that. A run that
finds a batch without the second file completes this batch with the same ranges.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from pyspark_jetstream.pipelines.store import Store, StoreError

DONE_MAX = 50
"""Number of entries of completed batches that stay in the journal, for inspection."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Range:
    """A range of sequences of one stream.

    Attributes:
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        first, last: First and last sequence, inclusive.
    """

    incarnation: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One output file of a batch.

    Attributes:
        staged: Temporary path, before the batch is visible.
        path: Final path.
        rows: Number of messages.
        bytes: Size in bytes.
    """

    staged: str
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Through:
    """The progress of a pipeline in one stream.

    Attributes:
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        began: The first sequence of the pipeline's first batch; earlier ones were never read.
        seq: The last sequence of completed batches.
    """

    incarnation: int
    began: int
    seq: int


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of one batch in the journal of a pipeline.

    Attributes:
        batch: Number of the batch, from 1.
        ranges: Range of sequences to read, by stream.
        through: Progress of each stream after the batch.
        pieces: Output files; empty if the output is not files.
        rows: Number of messages; 0 while unknown.
        note: Values that the pipeline stores for its next run.
    """

    batch: int
    ranges: Mapping[str, Range]
    through: Mapping[str, Through]
    pieces: tuple[Piece, ...] = ()
    rows: int = 0
    note: Mapping[str, str] = field(default_factory=dict)


class Superseded(StoreError):
    """Another run of the same pipeline has opened the journal later, so this run must end."""


class Journal:
    """The durable record of a pipeline's batches, as small files beside the pipeline's output.

    Only the run that opened the journal last may write to it.

    Each batch: `next` returns its entry, `begin` records it, `finish` records its end.

    Attributes:
        done: Entry of the last completed batch; None before the first.
        begun: Entry of the batch that is recorded but not completed; None if there is none.

    Args:
        store: The store of the journal.
        directory: Its directory, relative to the store.
    """

    def __init__(self, store: Store, directory: str) -> None:
        self._store, self._directory = store, directory
        self._run = uuid.uuid4().hex
        self.done: Entry | None = None
        self.begun: Entry | None = None
        store.write(self._path("owner"), self._run.encode())
        self._load()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _load(self) -> None:
        names = self._store.names(self._directory)
        finished = [n for n in names if n.endswith(".json") and not n.endswith(".begun.json")]
        if finished:
            self.done = self._entry(finished[-1])
        last = self.done.batch if self.done else 0
        begun = f"{last + 1:012}.begun.json"
        if begun in names:
            self.begun = self._entry(begun)

    def _entry(self, name: str) -> Entry:
        try:
            values = json.loads(self._store.read(self._path(name)))
            if values.pop("v") != _VERSION:
                raise ValueError("another version")
            values["ranges"] = {s: Range(**r) for s, r in values["ranges"].items()}
            values["through"] = {s: Through(**t) for s, t in values["through"].items()}
            values["pieces"] = tuple(Piece(**piece) for piece in values["pieces"])
            return Entry(**values)
        except (KeyError, TypeError, ValueError) as error:
            path = self._store.full(self._path(name))
            raise StoreError(f"{path} is no entry of a batch that this release wrote") from error

    def through(self) -> dict[str, Through]:
        """Return the progress in each stream after the last completed batch; {} without one."""
        return dict(self.done.through) if self.done else {}

    def next(self, ranges: Mapping[str, Range]) -> Entry:
        """Return the entry of the next batch with the given ranges, without writing it."""
        through = self.through()
        for stream, one in ranges.items():
            before = through.get(stream)
            same = before is not None and before.incarnation == one.incarnation
            began = before.began if before is not None and same else one.first
            through[stream] = Through(one.incarnation, began, one.last)
        return Entry((self.done.batch if self.done else 0) + 1, dict(ranges), through)

    def begin(self, entry: Entry) -> None:
        """Record durably that a batch begins.

        Raises Superseded if another run has opened the journal or begun this batch.
        """
        self._owned()
        try:
            self._put(f"{entry.batch:012}.begun.json", entry, new=True)
        except FileExistsError:
            raise Superseded(
                f"batch {entry.batch} in {self._where()} was begun by another run"
            ) from None
        self.begun = entry

    def finish(self, rows: int | None = None) -> Entry:
        """Record durably that the begun batch is complete; return its entry.

        Raises Superseded if another run has opened the journal, ValueError if no batch is begun.

        Args:
            rows: Number of messages of the batch; None for the number that the entry has.
        """
        entry = self.begun
        if entry is None:
            raise ValueError("no batch is under way")
        self._owned()
        if rows is not None:
            entry = replace(entry, rows=rows)
        self._put(f"{entry.batch:012}.json", entry, new=False)
        self._store.remove(self._path(f"{entry.batch:012}.begun.json"))
        self._store.remove(self._path(f"{entry.batch - DONE_MAX:012}.json"))
        self.done, self.begun = entry, None
        return entry

    def _put(self, name: str, entry: Entry, new: bool) -> None:
        text = json.dumps({"v": _VERSION, **asdict(entry)}, indent=1)
        self._store.write(self._path(name), text.encode(), new=new)

    def _owned(self) -> None:
        if self._store.read(self._path("owner")).decode() != self._run:
            raise Superseded(f"another run of this pipeline took over {self._where()}")

    def _where(self) -> str:
        return self._store.full(self._directory)
