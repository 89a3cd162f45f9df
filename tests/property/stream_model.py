"""A stream as a naive list of messages: what the machine must agree with."""

from dataclasses import dataclass, field

from core.model.stream import Discard, Storage, StreamConfig
from core.rules.stream.ttl import NEVER, parse_ttl
from core.subjects.subject import is_subset, matches
from core.units import NANOS_PER_SECOND


@dataclass(frozen=True)
class Publish:
    """What a client sends."""

    subject: bytes
    payload: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def block(self) -> bytes:
        lines = b"".join(b"%s: %s\r\n" % pair for pair in self.headers)
        return b"NATS/1.0\r\n" + lines + b"\r\n" if lines else b""


@dataclass
class Message:
    seq: int
    ts: int
    publish: Publish
    size: int


@dataclass
class StreamModel:
    """Everything that is there, oldest first."""

    config: StreamConfig
    messages: list[Message] = field(default_factory=list)
    last_seq: int = 0
    is_purged: bool = False
    last_ts: int = 0
    last_id: bytes = b""
    ids: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def of(self, subject: bytes) -> list[Message]:
        return [m for m in self.messages if m.publish.subject == subject]

    def nbytes(self) -> int:
        return sum(m.size for m in self.messages)

    # -- publish -----------------------------------------------------------------------------

    @property
    def marker_ttl(self) -> int:
        return self.config.subject_delete_marker_ttl

    def publish(self, batch: list[Publish], now: int) -> list[tuple[str, int]]:
        """Store what may be stored; return ("ok" or "duplicate", sequence) or ("error", code)."""
        answers = [self._publish(p, now) for p in batch]
        self.enforce(now)
        return answers

    def _publish(self, p: Publish, now: int) -> tuple[str, int]:
        headers = dict(p.headers)
        ttl = parse_ttl(headers[b"Nats-TTL"]) if b"Nats-TTL" in headers else 0
        if ttl and not self.config.allow_msg_ttl:
            return "error", 10166
        last = {m.publish.subject: m.seq for m in self.messages}
        wanted = headers.get(b"Nats-Expected-Last-Subject-Sequence")
        other = headers.get(b"Nats-Expected-Last-Subject-Sequence-Subject", p.subject)
        found = max((seq for s, seq in last.items() if matches(s, other)), default=0)
        if wanted is not None and int(wanted) != found:
            return "error", 10071
        wanted = headers.get(b"Nats-Expected-Last-Sequence")
        if wanted is not None and int(wanted) != self.last_seq:
            return "error", 10071
        msg_id = headers.get(b"Nats-Msg-Id", b"")
        if msg_id in self.ids and self.config.duplicate_window:
            seq, ts = self.ids[msg_id]
            if ts > now - self.config.duplicate_window:
                return "duplicate", seq
        if headers.get(b"Nats-Expected-Last-Msg-Id", self.last_id) != self.last_id:
            return "error", 10070
        if ttl is None:
            return "error", 10165
        if 0 < ttl < self.marker_ttl // NANOS_PER_SECOND and self.config.max_msgs_per_subject != 1:
            rest = tuple(pair for pair in p.headers if pair[0] != b"Nats-TTL")
            ttl = self.marker_ttl // NANOS_PER_SECOND
            p = Publish(p.subject, p.payload, (*rest, (b"Nats-TTL", b"%d" % ttl)))
        size = self._size(p)
        rollup = headers.get(b"Nats-Rollup", b"")
        if not self._has_room(p.subject, size, rollup):
            return "error", 10077
        if rollup == b"all":
            self.messages = []
        elif rollup:
            self.drop([m for m in self.messages if is_subset(m.publish.subject, p.subject)])
        self._store(p, now, msg_id)
        return "ok", self.last_seq

    def _store(self, p: Publish, now: int, msg_id: bytes = b"") -> None:
        self.last_seq += 1
        self.last_ts = max(now, self.last_ts + 1)
        self.last_id = msg_id
        if msg_id:
            self.ids[msg_id] = (self.last_seq, self.last_ts)
        self.messages.append(Message(self.last_seq, self.last_ts, p, self._size(p)))
        self._limit_subjects()

    @property
    def is_touched(self) -> bool:
        """Whether anything was ever stored, purged or configured about sequences."""
        return bool(self.config.first_seq or self.last_seq or self.is_purged)

    def _size(self, p: Publish) -> int:
        on_file = self.config.storage is Storage.FILE
        block = p.block()
        extra = len(block) + (4 if on_file else 0) if block else 0
        return (30 if on_file else 16) + len(p.subject) + len(p.payload) + extra

    def _has_room(self, subject: bytes, size: int, rollup: bytes) -> bool:
        config = self.config
        if config.discard is Discard.OLD:
            return True
        stored = self.of(subject)
        full = 0 < config.max_msgs_per_subject <= len(stored)
        if full and config.discard_new_per_subject and not rollup:
            return False
        if 0 < config.max_msgs <= len(self.messages) and not full:
            return False
        fits = config.max_bytes <= 0 or self.nbytes() + size <= config.max_bytes
        return fits or (full and stored[0].size >= size)

    # -- removal -----------------------------------------------------------------------------

    def drop(self, gone: list[Message]) -> int:
        self.messages = [m for m in self.messages if m not in gone]
        return len(gone)

    def _limit_subjects(self) -> None:
        limit = self.config.max_msgs_per_subject
        for subject in {m.publish.subject for m in self.messages}:
            if limit > 0:
                self.drop(self.of(subject)[:-limit])

    def enforce(self, now: int) -> None:
        """Remove what the limits of the configuration do not allow."""
        config = self.config
        self._limit_subjects()
        if config.discard is Discard.OLD:
            while 0 < config.max_msgs < len(self.messages):
                del self.messages[0]
            while 0 < config.max_bytes < self.nbytes():
                del self.messages[0]
        if config.max_age and not config.allow_msg_ttl:
            self.messages = [m for m in self.messages if m.ts > now - config.max_age]

    def expire(self, now: int) -> None:
        """Remove what has lived long enough; mark the subjects that have nothing left."""
        self.enforce(now)
        if not self.config.allow_msg_ttl:
            return
        due = [m for m in self.messages if self._is_due(m, now)]
        self.drop(due)
        last = {m.publish.subject: m for m in due}
        for newest in sorted(last.values(), key=lambda m: m.seq):
            subject = newest.publish.subject
            if self.marker_ttl and not self.of(subject) and not _marks(newest.publish):
                ttl = b"%ds" % (self.marker_ttl // NANOS_PER_SECOND)
                pairs = ((b"Nats-Marker-Reason", b"MaxAge"), (b"Nats-TTL", ttl))
                self._store(Publish(subject, b"", (*pairs, (b"Nats-Rollup", b"sub"))), now)
        self.enforce(now)

    def _is_due(self, m: Message, now: int) -> bool:
        ttl = parse_ttl(dict(m.publish.headers).get(b"Nats-TTL", b"00"))
        assert ttl is not None, "a bad one is not stored"
        lives = [n for n in (ttl * NANOS_PER_SECOND, self.config.max_age) if n > 0]
        return ttl != NEVER and bool(lives) and m.ts + min(lives) <= now

    def purge(self, pattern: bytes, seq: int, keep: int) -> int:
        found = [m for m in self.messages if matches(m.publish.subject, pattern)]
        self.is_purged = self.is_purged or pattern == b">"
        if pattern == b">" and seq > self.last_seq:
            # The stream goes on from there.
            self.last_seq = seq - 1
        if seq:
            return self.drop([m for m in found if m.seq < seq])
        return self.drop(found[: max(len(found) - keep, 0)] if keep else found)


def _marks(p: Publish) -> bool:
    headers = dict(p.headers)
    return b"Nats-Marker-Reason" in headers or headers.get(b"KV-Operation") == b"PURGE"
