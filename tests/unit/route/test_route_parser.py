"""The parser of the ROUTE protocol: what nats-server 2.15.1 sent, and what it refuses.

`SAID` was read from its cluster port.
"""

# Subject: routes

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ProtocolError
from core.protocol.link_parser import MAX_LINE
from core.protocol.messages import MessageColumns
from core.protocol.routed import interest, routed_message
from core.route.route_parser import RouteParser

LINES = (
    b'INFO {"server_id":"NA","server_name":"A","route_pool_size":3} \r\n'
    b'CONNECT {"echo":true,"headers":true,"name":"NA","cluster":"C","lnoc":true}\r\n'
    b"RS+ $G foo\r\n"
    b"RS+ $G foo q 1\r\n"
    b"RS+ $G foo q 2\r\n"
    b"RS+ $SYS $SYS.REQ.SERVER.PING.VARZ\r\n"
    b"PING\r\n"
    b"RMSG $G there 2\r\nhi\r\n"
    b"RMSG $G there rep 2\r\nhi\r\n"
    b"RMSG $G qq | grp 2\r\nhi\r\n"
    b"RMSG $G qq + rep grp 2\r\nhi\r\n"
    b"RMSG $G both | grp grp2 2\r\nhi\r\n"
    b"RMSG $G both + rep grp grp2 2\r\nhi\r\n"
    b"HMSG $G there 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    b"HMSG $G there rep 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    b"HMSG $G both + rep grp grp2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    b"RMSG $G qq | grp 0\r\n\r\n"
    b"RS- $G foo q\r\n"
    b"RS- $G foo\r\n"
    b"PONG\r\n"
    b"-ERR 'Authorization Violation'\r\n"
    b"HOLD\r\n"  # ours
    b"RELEASE\r\n"
)
H = b"NATS/1.0\r\n\r\n"
HEARD = [
    ("info", b'{"server_id":"NA","server_name":"A","route_pool_size":3}'),
    ("connect", b'{"echo":true,"headers":true,"name":"NA","cluster":"C","lnoc":true}'),
    ("sub", b"$G", b"foo", b"", 0),
    ("sub", b"$G", b"foo", b"q", 1),
    ("sub", b"$G", b"foo", b"q", 2),
    ("sub", b"$SYS", b"$SYS.REQ.SERVER.PING.VARZ", b"", 0),
    ("ping",),
    ("message", b"$G", b"there", b"", (), b"", b"hi"),
    ("message", b"$G", b"there", b"rep", (), b"", b"hi"),
    ("message", b"$G", b"qq", b"", (b"grp",), b"", b"hi"),
    ("message", b"$G", b"qq", b"rep", (b"grp",), b"", b"hi"),
    ("message", b"$G", b"both", b"", (b"grp", b"grp2"), b"", b"hi"),
    ("message", b"$G", b"both", b"rep", (b"grp", b"grp2"), b"", b"hi"),
    ("message", b"$G", b"there", b"", (), H, b"hi"),
    ("message", b"$G", b"there", b"rep", (), H, b"hi"),
    ("message", b"$G", b"both", b"rep", (b"grp", b"grp2"), H, b"hi"),
    ("message", b"$G", b"qq", b"", (b"grp",), b"", b""),
    ("unsub", b"$G", b"foo", b"q"),
    ("unsub", b"$G", b"foo", b""),
    ("pong",),
    ("err", b"Authorization Violation"),
    ("hold", {"is_held": True}),
    ("hold", {"is_held": False}),
]


class Heard:
    """Notes what is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_message_begun(self) -> None:
        """Anybody may send messages here."""

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        for subject, reply, headers, payload in batch.messages():
            self.calls.append(("message", account, subject, reply, (), headers, payload))

    def __getattr__(self, name: str) -> Any:
        def note(*args: Any, **named: bool) -> None:
            self.calls.append((name.removeprefix("on_"), *args, *((named,) if named else ())))

        return note


def heard(*reads: bytes) -> list[tuple[Any, ...]]:
    sink: Any = Heard()
    parser = RouteParser(sink)
    for data in reads:
        parser.feed(data)
    found: list[tuple[Any, ...]] = sink.calls
    return found


def test_operations_of_a_real_server() -> None:
    assert heard(LINES) == HEARD


def test_one_byte_at_a_time() -> None:
    assert heard(*(LINES[at : at + 1] for at in range(len(LINES)))) == HEARD


@given(st.lists(st.integers(0, len(LINES)), max_size=12))
def test_any_cut_gives_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(LINES)]
    assert heard(*(LINES[a:b] for a, b in pairwise(places))) == HEARD


TOKEN = st.binary(min_size=1, max_size=6).filter(lambda b: b.split() == [b] and b not in b"+|")
QUEUES = st.lists(TOKEN, max_size=3).map(tuple)


@given(TOKEN, TOKEN, st.just(b"") | TOKEN, QUEUES, st.just(b"") | st.just(H), st.binary())
def test_sent_operations_are_read(
    account: bytes,
    subject: bytes,
    reply: bytes,
    queues: tuple[bytes, ...],
    headers: bytes,
    payload: bytes,
) -> None:
    line = routed_message(account, subject, reply, queues, headers, payload)
    assert heard(line) == [("message", account, subject, reply, queues, headers, payload)]


WORDS = (
    *(b"RS+", b"RS-", b"rmsg", b"RMSG", b"HMSG", b"PING\r\n", b"INFO {}\r\n", b"A+ x\r\n", b"FOO"),
    *(b"$G", b"a.*", b"q", b"1", b"-1", b"2", b"+", b"|", b"\r\n", b"\n", b"hi\r\n", b"\xff"),
)


def outcome(*reads: bytes) -> tuple[list[tuple[Any, ...]], bool]:
    """What is called, and whether it ends in an error."""
    sink: Any = Heard()
    parser = RouteParser(sink)
    try:
        for data in reads:
            parser.feed(data)
    except ProtocolError:
        return sink.calls, True
    return sink.calls, False


@given(st.lists(st.sampled_from(WORDS) | st.just(b" "), max_size=30), st.data())
def test_of_anything_any_cut_gives_the_same(words: list[bytes], data: st.DataObject) -> None:
    said = b" ".join(words)
    cut = data.draw(st.integers(0, len(said)))
    assert outcome(said[:cut], said[cut:]) == outcome(said)
    assert outcome(*(said[at : at + 1] for at in range(len(said)))) == outcome(said)


FORMS = st.sampled_from(
    (
        *(b"RMSG $G a 4\r\nlong\r\n", b"RMSG $G a.b r 4\r\nlong\r\n", b"RMSG $G a 0\r\n\r\n"),
        *(b"RMSG B a 4\r\nlong\r\n", b"RMSG B% a%d r% 4\r\nRMSG\r\n", b"rmsg $G a 1\r\nx\r\n"),
        *(b"RMSG $G a | q 4\r\nlong\r\n", b"RMSG $G a + r q 4\r\nlong\r\n"),
        *(b"RMSG $G a + 4\r\nlong\r\n", b"RMSG $G a | 4\r\nlong\r\n", b"RMSG $G a 4\nlong\r\n"),
        *(b"HMSG $G a 12 16\r\n%blong\r\n" % H, b"HMSG $G a r 12 12\r\n%b\r\n" % H),
        *(b"HMSG $G a r 0 4\r\nlong\r\n", b"HMSG $G a + 12 12\r\n%b\r\n" % H),
        *(b"RMSG $G a\x0b r 4\r\nlong\r\n", b"RMSG $G a 04\r\nlong\r\n"),
        *(b" RMSG $G a 4\r\nlong\r\n", b"RMSG\t$G a 4\r\nlong\r\n", b"RMSGS a 4\r\n"),
        *(b"PING\r\n", b"RS+ $G a.*\r\n"),
        *(b"RMSG $G a 4\r\nlonger\r\n", b"HMSG $G a 5 4\r\nlong\r\n"),
    )
)


@settings(max_examples=60)
@given(st.lists(st.tuples(FORMS, st.integers(1, 30)), min_size=1, max_size=6), st.data())
def test_a_large_read_gives_the_same_as_single_bytes(
    runs: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    said = b"RMSG $G a 4\r\nlong\r\n" * 50 + b"".join(form * count for form, count in runs)
    expected = outcome(*(said[at : at + 1] for at in range(len(said))))
    assert outcome(said) == expected
    cut = data.draw(st.integers(0, len(said)))
    assert outcome(said[:cut], said[cut:]) == expected


@pytest.mark.parametrize("last", [b"+", b"|", b"\x0b", b"b c", b"\x01"])
def test_after_messages_of_one_size(last: bytes) -> None:
    said = b"RMSG $G a 4\r\nlong\r\n" * 60 + b"RMSG $G a %b 4\r\nlong\r\n" % last
    assert outcome(said) == outcome(*(said[at : at + 1] for at in range(len(said))))


def test_lines_of_interest() -> None:
    lines = interest(b"$G", b"a.*", b"", 3) + interest(b"$G", b"a", b"q", 2)
    assert lines == b"RS+ $G a.*\r\nRS+ $G a q 2\r\n"
    lines = interest(b"$G", b"a.*", b"", 0) + interest(b"$G", b"a", b"q", 0)
    assert lines == b"RS- $G a.*\r\nRS- $G a q\r\n"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"RS+ $G\r\n", ""),
        (b"RS+\r\n", "Unknown Protocol Operation"),
        (b"RS+ $G a b\r\n", ""),
        (b"RS- $G\r\n", ""),
        (b"RMSG $G\r\n", ""),
        (b"RMSG $G a x\r\n", ""),
        (b"RMSG $G a -1\r\n", ""),
        (b"RMSG $G a r s 2\r\nhi\r\n", ""),
        (b"HMSG $G a 9 2\r\n", ""),
        (b"RMSG $G a 2\r\nhixx\r\n", "Unknown Protocol Operation"),
        (b"RMSG $G a 999999999\r\n", ""),
        (b"FOO bar\r\n", "Unknown Protocol Operation"),
        (b"MSG a 1 2\r\nhi\r\n", "Unknown Protocol Operation"),
        (b"X" * 5000, "Unknown Protocol Operation"),
        (b"RS+ $G " + b"a" * MAX_LINE, "maximum control line exceeded"),
    ],
)
def test_refused_operations(sent: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        heard(sent)
    assert caught.value.text == text


@pytest.mark.parametrize(
    "sent",
    [
        b"+OK\r\n",
        b"A+ acc\r\nA- acc\r\n",
        b"",
    ],
)
def test_ignored_operations(sent: bytes) -> None:
    assert heard(sent) == []


def test_odd_forms_that_are_taken() -> None:
    assert heard(b"rs+ $G foo\r\nRS+ $G foo q x\r\nping\n") == [
        ("sub", b"$G", b"foo", b"", 0),
        ("sub", b"$G", b"foo", b"q", 0),
        ("ping",),
    ]


@pytest.mark.parametrize("extra_count", [0, 500])
def test_subjects_hold_vertical_tabs_and_form_feeds(extra_count: int) -> None:
    """Whatever a client publishes must not end the link; also in a large read."""
    subject = b"a.\x0bb\x0c"
    lines = b"RS+ $G %b\r\nRMSG $G %b 1\r\nx\r\nHMSG $G %b r 12 13\r\nNATS/1.0\r\n\r\ny\r\n"

    calls = heard(lines % (subject, subject, subject) + b"RMSG $G a 1\r\nz\r\n" * extra_count)

    assert calls[0][:3] == ("sub", b"$G", subject)
    assert calls[1][:4] == ("message", b"$G", subject, b"")
    assert calls[2] == ("message", b"$G", subject, b"r", (), b"NATS/1.0\r\n\r\n", b"y")
    assert len(calls) == 3 + extra_count
