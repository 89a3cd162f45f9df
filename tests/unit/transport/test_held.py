"""How much a node keeps of publishes that wait: the rest stays in the sockets of clients."""

# Subject: protocol, slow consumers

import pytest

from core.pubsub import server
from tests.support.sessions import Only
from tests.unit.transport.test_session import world

_PUBLISH = b"PUB a 100\r\n" + b"x" * 100 + b"\r\n"


def test_no_connection_is_read_once_the_held_bytes_reach_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert server.HELD_MAX == 64 * 2**20
    monkeypatch.setattr(server, "HELD_MAX", 2 * len(_PUBLISH))
    with world() as w:
        (one, first), (two, second), (three, third) = (w.join() for _ in range(3))
        three.data_received(b"SUB a 1\r\n")
        w.hub.hold_publishes()
        w.one_tick()
        one.data_received(_PUBLISH)
        w.one_tick()
        assert (first.reading, second.reading, third.reading) == (False, True, True)

        two.data_received(_PUBLISH)
        three.data_received(b"PING\r\n")  # was on its way
        w.hub.loop_tick.run()
        w.one_tick()
        three.resume()
        assert third.drain() == b"PONG\r\n"
        assert not third.reading

        w.hub.resume_publishes()
        w.one_tick()
        w.one_tick()
        assert third.drain().count(b"MSG a 1 100\r\n") == 2
        assert (first.reading, second.reading, third.reading) == (True, True, True)


def test_released_publishes_are_held_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELD_MAX", 2 * len(_PUBLISH))
    with world() as w:
        (one, first), (two, second) = (w.join() for _ in range(2))
        w.hub.hold_publishes()
        one.data_received(_PUBLISH)
        w.hub.hold_publishes(Only(b"b"))
        w.one_tick()
        w.one_tick()
        assert first.reading

        two.data_received(_PUBLISH.replace(b"a", b"b"))
        w.one_tick()
        assert (first.reading, second.reading) == (True, False)


def test_refused_publishes_go_on_and_those_of_a_closed_client_do_not_count() -> None:
    class Limited(Only):
        """Holds one publish."""

        stored_bytes = 0

        def count(self, subject: bytes, nbytes: int) -> None:
            assert subject == b"a" or not nbytes
            self.stored_bytes += nbytes

        def is_refused(self, subject: bytes) -> bool:
            return subject == b"a" and self.stored_bytes >= len(_PUBLISH)

        def reset(self) -> None:
            self.stored_bytes = 0

    held = Limited(b"a", b"b")
    with world() as w:
        (one, _), (two, second), (three, third) = (w.join() for _ in range(3))
        three.data_received(b"SUB a 1\r\n")
        w.hub.hold_publishes(held)
        w.one_tick()
        w.one_tick()
        one.data_received(_PUBLISH[:20])
        assert (held.stored_bytes, w.hub.held_bytes) == (20, 20)
        one.data_received(_PUBLISH[20:])
        assert (held.stored_bytes, w.hub.held_bytes) == (len(_PUBLISH), len(_PUBLISH))
        two.data_received(_PUBLISH)
        w.hub.loop_tick.run()
        assert second.reading
        assert third.drain().count(b"MSG a 1 100\r\n") == 1

        # What is held is held anew, however much it is; what is new is refused again.
        w.hub.hold_publishes(Only(b"a"))
        two.data_received(_PUBLISH)
        w.hub.hold_publishes(held)
        w.one_tick()
        w.one_tick()
        assert held.stored_bytes == 2 * len(_PUBLISH)
        three.data_received(_PUBLISH)
        w.hub.loop_tick.run()
        assert third.drain().count(b"MSG a 1 100\r\n") == 1

        two.close("", "")
        one.close("", "")
        assert (held.stored_bytes, w.hub.held_bytes) == (0, 0)
