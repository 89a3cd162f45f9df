"""The rule that decides which publishes are held while some streams have no leader.

Held are publishes to subjects of such streams, and acknowledgements, pull requests and other API
requests that name them. An API request that names no stream with a leader is held too, since its
answer may depend on all streams.

Once `STREAM_MAX` bytes are held for a stream, further publishes to it are refused at once
(`core.api.leaderless`).
"""

from collections import Counter
from collections.abc import Iterable

from core.model.stream import StreamConfig
from core.protocol.publish_hold import HoldRule
from core.subjects.sublist import Sublist

_JETSTREAM = (b"$JS.", b"$JG.")
UNREFUSED = b"$J"
"""Publishes to subjects that begin like this are held, but never refused."""
_STREAMLESS = (b"$JS.ACK.", b"$JS.FC.", b"$JS.EVENT.")
"""Beginnings of `$JS` subjects that are no API requests."""
_CACHED = 10_000
STREAM_MAX = 16 * 2**20
"""Largest number of bytes of publishes that are held for one stream."""


class HeldSubjects(HoldRule):
    """Decides whether a publish to a subject is held, and counts the bytes held per stream.

    A held publish waits in the server until its stream has a leader.

    Args:
        streams: (configuration, lease group) of each stream without a leader.
        led: The names of the streams with a leader.

    Attributes:
        refusable: The lease groups for whose streams publishes may be refused. Publishes to a
            stream with `no_ack` are held instead, since their publishers get no answer.
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
        """Return whether a publish to this subject is held until its stream has a leader."""
        held = self._known.get(subject)
        if held is None:
            held = self._is_held(subject)
            if len(self._known) < _CACHED:
                self._known[subject] = held
        return held

    def count(self, subject: bytes, nbytes: int) -> None:
        """Add `nbytes` to the bytes held for the streams of this subject; negative to subtract."""
        for stream in self._filters.match(subject)[0]:
            self._held_patterns[stream] += nbytes
            if self._held_patterns[stream] >= STREAM_MAX:
                self.full.add(stream)
            else:
                self.full.discard(stream)

    def reset(self) -> None:
        """Set all counts of held bytes to 0."""
        self._held_patterns.clear()
        self.full.clear()

    def is_refused(self, subject: bytes) -> bool:
        """Return whether a publish to this subject is refused, since too many bytes are held.

        True if a stream of the subject is in `full`, and its lease group is in `refusable`.
        """
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
