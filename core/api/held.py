"""Which publishes wait while some streams have no leader.

Those to subjects of these streams do, and what else is for them: acknowledgements, pull requests,
other requests of the API. A request waits too that names no stream which is led: its answer may
depend on all of them.

Once `STREAM_MAX` bytes are kept because of publishes to a stream, more of these do not wait: who
answers in the place of its leader refuses them (`core.api.leaderless`).
"""

from collections import Counter
from collections.abc import Iterable

from core.model.stream import StreamConfig
from core.protocol.holding import Held
from core.subjects.sublist import Sublist

_JETSTREAM = (b"$JS.", b"$JG.")
UNREFUSED = b"$J"
"""What begins so is never refused as a publish to a stream."""
_OTHERS = (b"$JS.ACK.", b"$JS.FC.", b"$JS.EVENT.")
"""What begins like requests and is none."""
_CACHED = 10_000
STREAM_MAX = 16 * 2**20
"""Bytes that are kept of publishes to one stream."""


class HeldSubjects(Held):
    """Says of the subject of a publish whether it has to wait, and counts what does.

    Args:
        streams: those that have no leader, with their lease groups.
        led: the names of the others.

    Attributes:
        refusable: the lease groups whose streams refuse publishes once too much is kept of them.
            Who publishes to a stream that acknowledges nothing could not be told; he waits.
        full: the streams of which too much is kept.
    """

    def __init__(self, streams: Iterable[tuple[StreamConfig, int]], led: Iterable[str]) -> None:
        self.refusable: frozenset[int] = frozenset()
        self.full: set[str] = set()
        self._groups: dict[str, int] = {}
        self._kept: Counter[str] = Counter()
        self._names: set[bytes] = set()
        self._filters: Sublist[str] = Sublist()
        for config, group in streams:
            if not config.no_ack:
                self._groups[config.name] = group
            self._names.add(config.name.encode())
            for subject in config.subjects:
                self._filters.insert(subject.encode(), config.name)
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

    def keep(self, subject: bytes, nbytes: int) -> None:
        """Count bytes that are kept since a publish on this subject waits; negative: no longer."""
        for stream in self._filters.match(subject)[0]:
            self._kept[stream] += nbytes
            if self._kept[stream] >= STREAM_MAX:
                self.full.add(stream)
            else:
                self.full.discard(stream)

    def forget(self) -> None:
        """Count anew: nothing is kept."""
        self._kept.clear()
        self.full.clear()

    def is_refused(self, subject: bytes) -> bool:
        """Say whether `STREAM_MAX` bytes are kept of the stream, and who publishes can be told."""
        if not self.full or subject.startswith(UNREFUSED):
            return False
        streams = self._filters.match(subject)[0]
        full = (self._groups.get(stream) for stream in streams if stream in self.full)
        return any(group in self.refusable for group in full)

    def _is_held(self, subject: bytes) -> bool:
        if subject.startswith(_JETSTREAM):
            tokens = set(subject.split(b"."))
            if not self._names.isdisjoint(tokens):
                return True
            if not subject.startswith(_OTHERS):
                return self._led.isdisjoint(tokens)
        return bool(self._filters.match(subject)[0])
