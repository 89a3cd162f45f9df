"""How much a node keeps of publishes that wait: the rest stays in the sockets of clients."""

import pytest

from core.pubsub import server
from tests.unit.transport.test_session import world

_PUBLISH = b"PUB a 100\r\n" + b"x" * 100 + b"\r\n"


def test_once_enough_is_kept_nobody_is_read_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.HELD_MAX == 64 * 2**20
    monkeypatch.setattr(server, "HELD_MAX", 2 * len(_PUBLISH))
    with world() as w:
        (one, first), (two, second), (three, third) = (w.join() for _ in range(3))
        three.data_received(b"SUB a 1\r\n")
        w.hub.hold_publishes()
        w.one_turn()
        one.data_received(_PUBLISH)
        w.one_turn()
        assert (first.reading, second.reading, third.reading) == (False, True, True)

        two.data_received(_PUBLISH)
        three.data_received(b"PING\r\n")  # was on its way
        w.hub.turn.run()
        w.one_turn()
        three.resume()
        assert third.take() == b"PONG\r\n"
        assert not third.reading

        w.hub.take_publishes()
        w.one_turn()
        w.one_turn()
        assert third.take().count(b"MSG a 1 100\r\n") == 2
        assert (first.reading, second.reading, third.reading) == (True, True, True)


def test_what_may_go_on_is_kept_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELD_MAX", 2 * len(_PUBLISH))
    with world() as w:
        (one, first), (two, second) = (w.join() for _ in range(2))
        w.hub.hold_publishes()
        one.data_received(_PUBLISH)
        w.hub.hold_publishes(lambda subject: subject == b"b")
        w.one_turn()
        w.one_turn()
        assert first.reading

        two.data_received(_PUBLISH.replace(b"a", b"b"))
        w.one_turn()
        assert (first.reading, second.reading) == (True, False)
