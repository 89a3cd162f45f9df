"""A consumer as naive sets: what the real one must agree with.

The model does not foretell every frame. It knows what may come, what must not, and what is due:
when a receiver waits and something is due, the consumer should not have been silent.
"""

from dataclasses import dataclass, field

SLACK = 110_000_000
"""How exact times are, in nanoseconds: stored deadlines have a resolution of 0.1 s."""


@dataclass
class Open:
    """A message that was delivered and not acknowledged."""

    count: int
    due: int
    cseq: int
    """The consumer sequence of its first delivery."""
    is_loose: bool = False
    """Whether it was worked on so close to its time that either may have come first."""
    is_removed: bool = False
    """Whether its message is gone from the stream. It is pending until it would be redelivered."""


@dataclass
class ConsumerModel:
    """One consumer of one stream. Times are monotonic nanoseconds."""

    wants: bytes = b""
    acks: str = "explicit"
    ack_wait: int = 0
    max_deliver: int = -1
    max_pending: int = -1
    live: dict[int, bytes] = field(default_factory=dict)
    newest: int = 0
    floor: int = 0
    """The highest acknowledged sequence under ack policy all."""
    cseq: int = 0
    open: dict[int, Open] = field(default_factory=dict)

    # -- what happens ------------------------------------------------------------------------

    def stored(self, seq: int, subject: bytes) -> None:
        self.live[seq] = subject

    def removed(self, seqs: list[int]) -> None:
        for seq in seqs:
            self.live.pop(seq, None)
            self.open.pop(seq, None)

    def delivered(self, seq: int, cseq: int, count: int, left: int, now: int) -> None:
        """Check one delivery against everything known and note it."""
        assert seq in self.live, "what was removed is not delivered"
        assert not self.wants or self.live[seq] == self.wants, "nobody wanted it"
        assert cseq == self.cseq + 1, "consumer sequences have no gaps"
        self.cseq = cseq
        first = cseq
        if seq > self.newest:
            assert seq == self.wanted()[0], "nothing is skipped"
            assert count == 1
            self.newest = seq
            assert left == len(self.wanted()), "what is left is told"
        else:
            entry = self.open.get(seq)
            assert entry is not None, "what was acknowledged does not come again"
            assert count == entry.count + 1, "every attempt counts"
            assert entry.is_loose or entry.due <= now + SLACK, "not before its time"
            assert self.max_deliver < 0 or count <= self.max_deliver
            first = entry.cseq
        if self.acks != "none":
            self.open[seq] = Open(count, now + self.ack_wait, first)

    def restarted(self, live: dict[int, bytes]) -> None:
        """Continue from this older state over the newest stream."""
        self.live = live
        for seq, entry in self.open.items():
            entry.is_removed = seq not in live

    def acked(self, seq: int, cseq: int, floor: tuple[int, int]) -> None:
        """Acknowledge one delivery; `floor` is the ack floor before it, as (stream, consumer).

        nats-server: an ack of a message that was never delivered is ignored. So is one under ack
        policy all if either of its sequences is not above the floor.
        """
        if self.acks != "all":
            self.open.pop(seq, None)
        elif floor[0] < seq <= self.newest and cseq > floor[1]:
            self.floor = seq
            self.open = {s: entry for s, entry in self.open.items() if s > seq}

    def refused(self, seq: int, cseq: int, floor: tuple[int, int], now: int, delay: int) -> None:
        """Redeliver after `delay`; `floor` is the ack floor as for `acked`.

        nats-server: a NAK is ignored if its consumer sequence is not above the floor, or is above
        the next delivery.
        """
        if not floor[1] < cseq <= self.cseq + 1:
            return
        if seq in self.open and not self.is_over(self.open[seq], now):
            self.open[seq].due = now + delay if delay else now - 2 * SLACK

    def worked_on(self, seq: int, now: int) -> None:
        entry = self.open.get(seq)
        if entry is None or entry.due < now - SLACK:
            return
        entry.is_loose = entry.is_loose or entry.due <= now + SLACK
        if not entry.is_loose:
            entry.due = now + self.ack_wait

    # -- what is ----------------------------------------------------------------------------

    def wanted(self) -> list[int]:
        """What was never delivered, oldest first."""
        return [
            seq
            for seq, subject in sorted(self.live.items())
            if seq > self.newest and (not self.wants or subject == self.wants)
        ]

    def is_over(self, entry: Open, now: int) -> bool:
        """Whether the last attempt was in vain (perhaps: deadlines are not exact)."""
        is_late = entry.is_loose or entry.due <= now + SLACK
        return 0 < self.max_deliver <= entry.count and is_late

    def waiting(self, now: int) -> list[int]:
        """The messages that certainly wait for an acknowledgement."""
        return [
            seq
            for seq, entry in self.open.items()
            if not entry.is_removed and not self.is_over(entry, now)
        ]

    def pending(self, now: int) -> tuple[int, int]:
        """The least and the most messages that may count as waiting for an acknowledgement."""
        return len(self.waiting(now)), len(self.open)

    def due(self, now: int) -> list[int]:
        """What should have been delivered to somebody who waits."""
        again = [
            seq
            for seq, entry in self.open.items()
            if not entry.is_removed
            and self._is_late(entry, now)
            and (self.max_deliver < 0 or entry.count < self.max_deliver)
        ]
        pending = [
            entry
            for entry in self.open.values()
            if not (entry.is_removed and self._is_late(entry, now))
        ]
        has_room = self.max_pending < 0 or len(pending) < self.max_pending
        return again + (self.wanted() if has_room or self.acks == "none" else [])

    def _is_late(self, entry: Open, now: int) -> bool:
        """Whether the ack wait of a message is certainly over."""
        return not entry.is_loose and entry.due <= now - SLACK
