"""The publishes that are held while some streams have no leader.

These are publishes to subjects of such streams, and acknowledgements, pull requests and other API
requests that name them. An API request that names no led stream is held too, since its answer may
depend on all streams.

Once `STREAM_MAX` bytes are held for a stream, further publishes to it are not held:
`core.api.leaderless` refuses them in place of the leader.
"""

from collections import Counter
from collections.abc import Iterable

from core.model.stream import StreamConfig
from core.protocol.publish_hold import HoldRule
from core.subjects.sublist import Sublist

_JETSTREAM = (b"$JS.", b"$JG.")
UNREFUSED = b"$J"
"""The beginning of subjects that are never refused as publishes to a stream."""
_STREAMLESS = (b"$JS.ACK.", b"$JS.FC.", b"$JS.EVENT.")
"""The beginnings of `$JS` subjects that are no API requests."""
_CACHED = 10_000
STREAM_MAX = 16 * 2**20
"""Bytes of publishes that are held for one stream at most."""


class HeldSubjects(HoldRule):
    """Decides whether a publish to a subject is held, and counts the bytes held.

    Args:
        streams: (configuration, lease group) of the streams without a leader.
        led: The names of the other streams.

    Attributes:
        refusable: The lease groups whose full streams refuse publishes. Publishes to a stream with
            `no_ack` are never refused but held, since their publishers get no answer.
        full: The names of streams for which at least `STREAM_MAX` bytes are held.
    """

    def __init__(self, streams: Iterable[tuple[StreamConfig, int]], led: Iterable[str]) -> None:
        self.refusable: frozenset[int] = frozenset()
        self.full: set[str] = set()
        self._groups: dict[str, int] = {}
        self._held_patterns: Counter[str] = Counter()
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
        """Return whether a publish to this subject is held."""
        held = self._known.get(subject)
        if held is None:
            held = self._is_held(subject)
            if len(self._known) < _CACHED:
                self._known[subject] = held
        return held

    def count(self, subject: bytes, nbytes: int) -> None:
        """Count `nbytes` more bytes held for a publish to this subject (negative: fewer)."""
        for stream in self._filters.match(subject)[0]:
            self._held_patterns[stream] += nbytes
            if self._held_patterns[stream] >= STREAM_MAX:
                self.full.add(stream)
            else:
                self.full.discard(stream)

    def reset(self) -> None:
        """Reset all counts: nothing is held any more."""
        self._held_patterns.clear()
        self.full.clear()

    def is_refused(self, subject: bytes) -> bool:
        """Return whether a publish to this subject is refused: its stream is full and refusable."""
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
            if not subject.startswith(_STREAMLESS):
                return self._led.isdisjoint(tokens)
        return bool(self._filters.match(subject)[0])
