"""Which streams listen on a subject, whoever leads them. No I/O."""

from collections.abc import Iterable

from core.auth.author import StreamScope
from core.cluster.catalogue import Catalogue
from core.subjects.sublist import Sublist


class StreamScopes:
    """The streams of an account by subject, as the catalogue has them.

    Made anew when it is asked for after a change: hardly anybody asks.
    """

    def __init__(self, catalogue: Catalogue, account: str) -> None:
        self._catalogue = catalogue
        self._account = account
        self._takings = -1
        self._found: Sublist[StreamScope] = Sublist()

    def of(self, subject: bytes) -> Iterable[StreamScope]:
        """Yield the streams that listen on a subject."""
        if self._takings != self._catalogue.takings:
            self._takings, self._found = self._catalogue.takings, self._read()
        yield from self._found.match(subject)[0]

    def _read(self) -> Sublist[StreamScope]:
        found: Sublist[StreamScope] = Sublist()
        for name, stream in self._catalogue.of(self._account).items():
            config = stream.config
            subjects = tuple(subject.encode() for subject in config.subjects)
            scope = StreamScope(name, subjects, bool(config.mirror or config.sources))
            for subject in subjects:
                found.insert(subject, scope)
        return found
