"""Lookup of the streams, on all nodes, that store messages of a subject. No I/O."""

from collections.abc import Iterable

from core.auth.author import StreamScope
from core.cluster.directory import StreamDirectory
from core.subjects.sublist import Sublist


class StreamScopes:
    """The streams of an account, indexed by subject, from the stream directory.

    The index is rebuilt at the first query after a change of the directory: queries are rare.
    """

    def __init__(self, directory: StreamDirectory, account: str) -> None:
        self._directory = directory
        self._account = account
        self._updates = -1
        self._found: Sublist[StreamScope] = Sublist()

    def of(self, subject: bytes) -> Iterable[StreamScope]:
        """Yield the streams whose subject filters match a subject."""
        if self._updates != self._directory.updates:
            self._updates, self._found = self._directory.updates, self._read()
        yield from self._found.match(subject)[0]

    def _read(self) -> Sublist[StreamScope]:
        found: Sublist[StreamScope] = Sublist()
        for name, stream in self._directory.of(self._account).items():
            config = stream.config
            subjects = tuple(subject.encode() for subject in config.subjects)
            scope = StreamScope(name, subjects, bool(config.mirror or config.sources))
            for subject in subjects:
                found.insert(subject, scope)
        return found
