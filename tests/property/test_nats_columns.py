"""What a NATS server sends to the Spark format comes out whole, however the reads are cut."""

# Subject: Spark over NATS

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark_jetstream.nats.errors import ProtocolError
from pyspark_jetstream.nats.parser import Columns, Parser

Message = tuple[str, bytes, bytes, bytes, bytes, bytes]
"""Kind, subject, sid, reply, header block, payload; kind `line` has its text as payload."""

_token = st.text("abXY01_$>", min_size=1, max_size=6).map(str.encode)
_header = st.binary(max_size=20).map(lambda text: b"NATS/1.0\r\n" + text + b"\r\n\r\n")
_payload = st.one_of(st.binary(max_size=40), st.just(b"\r\nMSG a 1 3\r\nxyz\r\n"))
_plain = st.tuples(
    st.just("MSG"),
    _token,
    st.sampled_from([b"1", b"2", b"77"]),
    st.one_of(st.just(b""), _token),
    st.just(b""),
    _payload,
)
_with_headers = st.tuples(
    st.just("HMSG"),
    _token,
    st.sampled_from([b"1", b"2", b"77"]),
    st.one_of(st.just(b""), _token),
    _header,
    _payload,
)
_line = st.tuples(
    st.just("line"),
    st.just(b""),
    st.just(b""),
    st.just(b""),
    st.just(b""),
    st.sampled_from([b"PING", b"PONG", b"+OK", b"-ERR 'Stale Connection'", b'INFO {"a":1} ']),
)
_operation = st.one_of(_plain, _with_headers, _line)


def _encoded(message: Message) -> bytes:
    kind, subject, sid, reply, headers, payload = message
    if kind == "line":
        return payload + b"\r\n"
    words = [kind.encode(), subject, sid, *([reply] if reply else [])]
    words += [b"%d" % len(headers)] if kind == "HMSG" else []
    words += [b"%d" % (len(headers) + len(payload))]
    return b" ".join(words) + b"\r\n" + headers + payload + b"\r\n"


_alike = st.tuples(
    st.lists(_token, min_size=9, max_size=30), st.sampled_from([b"1", b"2", b"77"]), _payload
).map(lambda run: [("MSG", subject, run[1], b"", b"", run[2]) for subject in run[0]])
_runs = st.lists(st.one_of(_operation.map(lambda one: [one]), _alike), max_size=12)


@given(_runs.map(lambda runs: [one for run in runs for one in run]), st.data())
def test_reads_cut_anywhere_give_the_same_columns(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(map(_encoded, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    lines: list[bytes] = []
    parser = Parser(lines.append)
    parser.inboxes = {b"1": Columns(), b"2": Columns()}
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        parser.feed(stream[begin:end])
    assert lines == [message[5] for message in sent if message[0] == "line"]
    for sid, columns in parser.inboxes.items():
        mine = [message for message in sent if message[2] == sid]
        assert columns.subjects == [message[1] for message in mine]
        assert columns.replies == [message[3] for message in mine]
        assert columns.headers == [message[4] for message in mine]
        assert columns.payloads == [message[5] for message in mine]


@given(st.lists(_operation, min_size=1, max_size=4))
def test_reads_of_one_byte_give_the_same_columns(sent: list[Message]) -> None:
    parser = Parser(lambda line: None)
    columns = parser.inboxes[b"1"] = Columns()
    stream = b"".join(map(_encoded, sent))
    for place in range(len(stream)):
        parser.feed(stream[place : place + 1])
    assert columns.payloads == [message[5] for message in sent if message[2] == b"1"]


@pytest.mark.parametrize(
    "line",
    [
        b"MSG a 1\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 r 3 4\r\nabcd\r\n",
        b"HMSG a 1 5\r\nabcde\r\n",
        b"HMSG a 1 9 5\r\nabcde\r\n",
        b"HMSG a 1 x 5\r\nabcde\r\n",
        b"MSG a 1 3\r\nabcdef",
    ],
)
def test_a_malformed_message_is_an_error(line: bytes) -> None:
    parser = Parser(lambda line: None)
    with pytest.raises(ProtocolError):
        parser.feed(line + b"PING\r\n")


def test_a_line_without_end_is_an_error_and_not_kept_for_ever() -> None:
    parser = Parser(lambda line: None)
    for _ in range(16):
        parser.feed(b"x" * 65536)
    with pytest.raises(ProtocolError):
        parser.feed(b"x")
