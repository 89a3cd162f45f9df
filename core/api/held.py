"""Which publishes wait while some streams have no leader.

Those to subjects of these streams do, and what else is for them: acknowledgements, pull requests,
other requests of the API. A request waits too that names no stream which is led: its answer may
depend on all of them.
"""

from collections.abc import Iterable

from core.model.stream import StreamConfig
from core.subjects.sublist import Sublist

_JETSTREAM = (b"$JS.", b"$JG.")
_OTHERS = (b"$JS.ACK.", b"$JS.FC.", b"$JS.EVENT.")
"""What begins like requests and is none."""
_CACHED = 10_000


class HeldSubjects:
    """Says of the subject of a publish whether it has to wait.

    Args:
        streams: those that have no leader.
        led: the names of the others.
    """

    def __init__(self, streams: Iterable[StreamConfig], led: Iterable[str]) -> None:
        self._names: set[bytes] = set()
        self._filters: Sublist[None] = Sublist()
        for config in streams:
            self._names.add(config.name.encode())
            for subject in config.subjects:
                self._filters.insert(subject.encode(), None)
        self._led = {name.encode() for name in led}
        self._known: dict[bytes, bool] = {}

    def __call__(self, subject: bytes) -> bool:
        """Say whether a publish on this subject has to wait."""
        held = self._known.get(subject)
        if held is None:
            held = self._is_held(subject)
            if len(self._known) < _CACHED:
                self._known[subject] = held
        return held

    def _is_held(self, subject: bytes) -> bool:
        if subject.startswith(_JETSTREAM):
            tokens = set(subject.split(b"."))
            if not self._names.isdisjoint(tokens):
                return True
            if not subject.startswith(_OTHERS):
                return self._led.isdisjoint(tokens)
        return bool(self._filters.match(subject)[0])
