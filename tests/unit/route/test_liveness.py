"""Which peers are taken for dead, and when they are asked."""

# Subject: routes

from core.route.liveness import SILENCE_S, PeerLiveness
from core.units import Seconds

SECOND = 1_000_000_000
CHECKS_PER_S = 4
"""Liveness checks of a mesh per second."""
INTERVAL = Seconds(30.0)


class Peer:
    """A peer on a clock that a test moves; its answers to PINGs are up to the test."""

    def __init__(self) -> None:
        self.now = 17 * SECOND
        self.liveness = PeerLiveness(self.now)
        self.taken = self.unsent = 0
        self.pings: list[float] = []

    def advance(self, seconds: float) -> bool:
        """Move the clock in one step; return True if the peer is gone."""
        self.now += int(seconds * SECOND)
        self.liveness.update(self.now, self.taken, self.unsent)
        if self.liveness.is_ping_due(self.now, INTERVAL):
            self.liveness.pinged(self.now)
            self.pings.append(self.now / SECOND - 17)
        return self.liveness.is_silent()

    def silent_for(self, seconds: float) -> bool:
        """Return True if the peer is gone at any of the checks."""
        return sum(self.advance(1 / CHECKS_PER_S) for _ in range(int(seconds * CHECKS_PER_S))) > 0


def test_a_silent_peer_is_pinged_each_second_and_then_closed() -> None:
    peer = Peer()
    assert not peer.silent_for(SILENCE_S - 0.25)
    assert peer.pings == [1.0, 2.0, 3.0]
    assert peer.advance(0.25)


def test_a_peer_that_answers_stays() -> None:
    peer = Peer()
    for _ in range(30):
        assert not peer.silent_for(SILENCE_S - 0.25)
        peer.liveness.record_read(peer.now)


def test_the_round_trip_is_measured_also_of_a_peer_that_speaks_all_the_time() -> None:
    peer = Peer()
    for _ in range(61 * CHECKS_PER_S):
        peer.liveness.record_read(peer.now)
        peer.advance(0.25)
    assert peer.pings == [30.0, 60.0]
    peer.now += 7
    peer.liveness.answered(peer.now)
    peer.now += 7
    peer.liveness.answered(peer.now)
    assert peer.liveness.rtt == peer.now - 7 - int(77 * SECOND), "the first answer counts"


def test_a_stall_of_this_server_is_no_silence_of_the_peer() -> None:
    """What the peer said meanwhile is in the socket: it is asked, and has time to be heard."""
    peer = Peer()
    assert not peer.advance(20.0)
    for _ in range(5):
        assert not peer.advance(5.0)
    assert len(peer.pings) == 5


def test_a_peer_that_takes_output_lives_though_its_answers_are_late() -> None:
    peer = Peer()
    peer.unsent = 8 << 20
    for _ in range(20 * CHECKS_PER_S):
        peer.taken += 100
        assert not peer.advance(0.25)
    assert not peer.silent_for(SILENCE_S - 0.25)
    assert peer.advance(0.25), "nothing more was taken"


def test_output_that_the_kernel_took_at_once_proves_nothing() -> None:
    peer = Peer()
    for _ in range(int(SILENCE_S * CHECKS_PER_S) - 1):
        peer.taken += 100
        assert not peer.advance(0.25)
    peer.taken += 100
    assert peer.advance(0.25)


def test_a_peer_that_sends_and_reads_nothing_is_slow() -> None:
    peer = Peer()
    peer.unsent = 1
    for second in range(30):
        peer.liveness.record_read(peer.now)
        peer.advance(1.0)
        assert peer.liveness.is_stuck(peer.now, Seconds(10.0)) == (second >= 9)
    peer.taken += 1
    peer.advance(1.0)
    assert not peer.liveness.is_stuck(peer.now, Seconds(10.0))
    peer.unsent = 0
    peer.advance(60.0)
    assert not peer.liveness.is_stuck(peer.now, Seconds(10.0)), "there was nothing to take"
    assert not peer.liveness.is_stuck(peer.now, Seconds(0.0)), "and there is nothing"
