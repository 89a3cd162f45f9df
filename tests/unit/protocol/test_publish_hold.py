"""Nothing of what comes after a held publish is read, however it is cut; all before it is."""

# Subject: protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ProtocolError
from core.protocol.publish_hold import EVERYTHING, PublishHold
from core.protocol.server_parser import Parser

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
        self.calls += [("pub", subject, payload) for payload in payloads]

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


@pytest.mark.parametrize("split_at", range(len(SENT) + 1))
def test_bytes_read_before_and_after_a_hold(split_at: int) -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold(None, EVERYTHING)
    for part in (SENT[:split_at], SENT[split_at:]):
        parser.feed(hold.split(part, EVERYTHING), sink)
    assert sink.calls == BEFORE
    assert hold.is_holding

    parser.feed(hold.held_data, sink)

    assert sink.calls == BEFORE + AFTER
    assert parser.msgs == 1


def test_single_bytes_are_divided_alike() -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold(None, EVERYTHING)
    for place in range(len(SENT)):
        parser.feed(hold.split(SENT[place : place + 1], EVERYTHING), sink)
    parser.feed(hold.held_data, sink)
    assert sink.calls == BEFORE + AFTER


@pytest.mark.parametrize("split_at", range(1, 12))
def test_the_end_of_a_line_is_no_publish(split_at: int) -> None:
    sink, parser, hold = Sink(), Parser(1024, 4096), PublishHold(None, EVERYTHING)
    for part in (b"SUB PUB pub"[:split_at], b"SUB PUB pub"[split_at:], b"\r\nPING\r\n"):
        parser.feed(hold.split(part, EVERYTHING), sink)
    assert sink.calls == [("sub", b"PUB"), ("ping",)]
    assert not hold.is_holding


@pytest.mark.parametrize("wrong", [b"PUB\r\n", b"PUBLISH a 1\r\n", b"P U B\r\n"])
def test_a_malformed_publish_is_refused_at_once(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        Parser(1024, 4096).feed(PublishHold(None, EVERYTHING).split(wrong, EVERYTHING), Sink())


_OPERATIONS = st.sampled_from(
    (
        b"PING\r\n",
        b"SUB held 1\r\n",
        b"pub other 7\r\nPUB a 1\r\n",
        b"HPUB other r 12 15\r\nNATS/1.0\r\n\r\nx\r\n\r\n",
        b"PUB\tother.held 6 \r\nPING\r\n\r\n",
        b"PUB held 4\r\n\r\n\r\n\r\n",
        b"hPUB held 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    )
)


def _is_held(subject: bytes) -> bool:
    return subject == b"held"


@given(operations=st.lists(_OPERATIONS, max_size=8), data=st.data())
def test_all_before_the_first_held_publish_goes_on(
    operations: list[bytes], data: st.DataObject
) -> None:
    sent = b"".join(operations)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    begins = [i for i, each in enumerate(operations) if b"held" in each.split()[1:2]]
    first = next((i for i in begins if not operations[i].startswith(b"SUB")), len(operations))
    hold = PublishHold(None, _is_held)

    passed = [
        hold.split(sent[start:stop], _is_held)
        for start, stop in zip([0, *cuts], [*cuts, len(sent)], strict=True)
    ]

    assert b"".join(passed) == b"".join(operations[:first])
    assert b"".join(passed) + hold.held_data == sent
    assert hold.is_holding == (first < len(operations))


@given(operations=st.lists(_OPERATIONS, max_size=8), data=st.data())
def test_a_hold_may_begin_and_change_anywhere(operations: list[bytes], data: st.DataObject) -> None:
    """The parser gets everything once and in order, whatever it had read when the hold began."""
    sent = b"".join(operations)
    begin = data.draw(st.integers(0, len(sent)))
    change = data.draw(st.integers(begin, len(sent)))
    sink, parser = Sink(), Parser(1024, 4096)
    parser.feed(sent[:begin], sink)
    hold = PublishHold(parser.begun, _is_held)
    parser.feed(hold.split(parser.withdraw_unread() + sent[begin:change], _is_held), sink)
    begun_before = Sink()
    Parser(1024, 4096).feed(sent[:begin], begun_before)
    assert ("pub", b"held") not in [call[:2] for call in sink.calls[len(begun_before.calls) :]]

    again = PublishHold(parser.begun, EVERYTHING)
    kept = parser.withdraw_unread() + hold.held_data
    parser.feed(again.split(kept + sent[change:], EVERYTHING), sink)
    parser.feed(again.held_data, sink)

    whole = Sink()
    Parser(1024, 4096).feed(sent, whole)
    assert sink.calls == whole.calls


def test_a_line_without_end_is_left_to_the_parser() -> None:
    hold = PublishHold(None, EVERYTHING)
    with pytest.raises(ProtocolError):
        Parser(1024, 4096).feed(hold.split(b"SUB " + b"x" * 9000, EVERYTHING), Sink())
    assert len(hold.held_data) < 9000
