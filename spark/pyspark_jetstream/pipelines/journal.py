"""What a pipeline has done, kept beside what it wrote: one small file for each batch.

A batch has a number and a range of sequences of each stream. Its entry is written twice: as
`N.begun.json` before the batch can be seen, and as `N.json` when all of it is there. A run that
finds a batch which was begun and not done finishes that very batch, with the same ranges.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from pyspark_jetstream.pipelines.store import Store, StoreError

KEPT = 50
"""Entries of batches that are done and kept for people to look at."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Sequences of one stream.

    Args:
        incarnation: When the stream was created, in nanoseconds since the epoch.
        first, last: Both included.
    """

    incarnation: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of a batch: where it was staged, where it belongs, and how many rows it has."""

    staged: str
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Through:
    """How far a stream is done.

    Args:
        incarnation: When the stream was created, in nanoseconds since the epoch.
        began: The first sequence that was asked for; what lies before was never read.
        seq: The last sequence that is done.
    """

    incarnation: int
    began: int
    seq: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch.

    Args:
        batch: Its number, from 1.
        ranges: What it reads, by stream.
        through: How far each stream is done with it.
        pieces: Its files, where it has some.
        rows: How many messages it holds; 0 while that is not known.
        note: What the pipeline keeps for itself.
    """

    batch: int
    ranges: Mapping[str, Range]
    through: Mapping[str, Through]
    pieces: tuple[Piece, ...] = ()
    rows: int = 0
    note: Mapping[str, str] = field(default_factory=dict)


class Superseded(StoreError):
    """Another run of the same pipeline began later; this one has to end."""


class Journal:
    """The batches of one pipeline. One run owns it: the one that opened it last.

    Args:
        store: Where it is kept.
        directory: Below the store.
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
        """How far each stream is done."""
        return dict(self.done.through) if self.done else {}

    def next(self, ranges: Mapping[str, Range]) -> Entry:
        """The entry of the next batch, which reads these ranges; nothing is written yet."""
        through = self.through()
        for stream, one in ranges.items():
            before = through.get(stream)
            same = before is not None and before.incarnation == one.incarnation
            began = before.began if before is not None and same else one.first
            through[stream] = Through(one.incarnation, began, one.last)
        return Entry((self.done.batch if self.done else 0) + 1, dict(ranges), through)

    def begin(self, entry: Entry) -> None:
        """Have it on disk that a batch is under way. Raises Superseded."""
        self._owned()
        try:
            self._put(f"{entry.batch:012}.begun.json", entry, new=True)
        except FileExistsError:
            raise Superseded(
                f"batch {entry.batch} in {self._where()} was begun by another run"
            ) from None
        self.begun = entry

    def finish(self, rows: int | None = None) -> Entry:
        """Have it on disk that the batch under way is done. Raises Superseded."""
        entry = self.begun
        if entry is None:
            raise ValueError("no batch is under way")
        self._owned()
        if rows is not None:
            entry = replace(entry, rows=rows)
        self._put(f"{entry.batch:012}.json", entry, new=False)
        self._store.remove(self._path(f"{entry.batch:012}.begun.json"))
        self._store.remove(self._path(f"{entry.batch - KEPT:012}.json"))
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
