"""Nothing of what comes after a publish is read while publishes are held, however it is cut."""

import pytest

from core.errors import ProtocolError
from core.protocol.holding import PublishHold
from core.protocol.parser import Parser

SENT = (
    b'CONNECT {"a":1}\r\nSUB pub.x 1\r\nPING\r\nhpub a b 12 13\r\nNATS/1.0\r\n\r\nx\r\nSUB b 2\r\n'
)
BEFORE = [("connect", b'{"a":1}'), ("sub", b"pub.x"), ("ping",)]
AFTER = [("pub", b"a", b"x"), ("sub", b"b")]


class Sink:
    """Notes what it is called with."""

    headers = True

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    @property
    def publisher(self) -> "Sink":
        return self

    def on_pub(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.calls.append(("pub", subject, payload))

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        raise AssertionError("nothing is traced")

    def on_run(self, subject: bytes, payloads: list[bytes]) -> None:
        raise AssertionError("there is no run")

    def on_batch(self, batch: object) -> bool:
        raise AssertionError("there is no batch")

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.calls.append(("sub", subject))

    def on_unsub(self, sid: bytes, limit: int) -> None:
        self.calls.append(("unsub", sid))

    def on_connect(self, body: bytes) -> None:
        self.calls.append(("connect", body))

    def on_ping(self) -> None:
        self.calls.append(("ping",))

    def on_pong(self) -> None:
        self.calls.append(("pong",))


@pytest.mark.parametrize("cut", range(len(SENT) + 1))
def test_what_is_read_before_and_after(cut: int) -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold()
    for part in (SENT[:cut], SENT[cut:]):
        parser.feed(hold.take(part), sink)
    assert sink.calls == BEFORE
    assert hold.is_holding

    parser.feed(hold.kept, sink)

    assert sink.calls == BEFORE + AFTER
    assert parser.msgs == 1


def test_single_bytes_are_divided_alike() -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold()
    for place in range(len(SENT)):
        parser.feed(hold.take(SENT[place : place + 1]), sink)
    parser.feed(hold.kept, sink)
    assert sink.calls == BEFORE + AFTER


@pytest.mark.parametrize("cut", range(1, 12))
def test_the_end_of_a_line_is_no_publish(cut: int) -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold()
    for part in (b"SUB PUB pub"[:cut], b"SUB PUB pub"[cut:], b"\r\nPING\r\n"):
        parser.feed(hold.take(part), sink)
    assert sink.calls == [("sub", b"PUB"), ("ping",)]
    assert not hold.is_holding


@pytest.mark.parametrize("wrong", [b"PUB\r\n", b"PUBLISH a 1\r\n", b"P U B\r\n"])
def test_what_is_no_publish_is_refused_at_once(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        Parser(1024, 4096).feed(PublishHold().take(wrong), Sink())
