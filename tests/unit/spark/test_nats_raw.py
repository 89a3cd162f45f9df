"""Replies of Direct Get and deliveries of consumers as Arrow columns."""

# Subject: Spark rows, Spark over NATS

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats.errors import ProtocolError
from pyspark_jetstream.nats.headers import first_value, status_of
from pyspark_jetstream.nats.raw import Raw, from_deliveries, from_direct, nanoseconds, rows_through
from pyspark_jetstream.subjects import text_of

from core.storage.postgres.subjects import text_of as stored_text

_TIME = "2026-11-22T16:52:58.198282833Z"
_NS = 1795366378198282833


def _direct(seq: int, own: bytes = b"", *, batch: bool = True, time: str = _TIME) -> bytes:
    added = f"Nats-Stream: S\r\nNats-Subject: s.{seq}\r\nNats-Sequence: {seq}\r\n"
    added += f"Nats-Time-Stamp: {time}\r\n"
    added += "Nats-Num-Pending: 3\r\nNats-Last-Sequence: 0\r\n" if batch else ""
    return b"NATS/1.0\r\n" + own + added.encode() + b"\r\n"


def _rows(raw: Raw) -> list[tuple[Any, ...]]:
    return list(zip(*(array.to_pylist() for array in raw.arrays), strict=True))


def test_headers_added_by_direct_get_become_columns() -> None:
    own = b"A: b\r\nNats-Stream: forged\r\nNats-Subject: forged\r\n"
    raw = from_direct(
        [_direct(7), _direct(9, own, time="2026-11-22T16:52:58Z")],
        [b"", b"two"],
        with_headers=True,
        with_data=True,
    )
    assert raw.streams == {b"S"}
    assert raw.last == 9
    assert _rows(raw) == [
        (7, "s.7", _NS, None, b"", 0),
        (9, "s.9", 1795366378000000000, b"NATS/1.0\r\n" + own + b"\r\n", b"two", 3),
    ]


def test_columns_that_are_not_wanted_are_null_and_sizes_stay() -> None:
    raw = from_direct([_direct(7, b"A: b\r\n")], [b"abc"], with_headers=False, with_data=False)
    assert _rows(raw) == [(7, "s.7", _NS, None, None, 3)]


def test_messages_that_differ_in_what_was_added_are_read_one_by_one() -> None:
    raw = from_direct(
        [_direct(1), _direct(2, batch=False)], [b"a", b"b"], with_headers=True, with_data=True
    )
    assert [row[0] for row in _rows(raw)] == [1, 2]


def test_a_reply_that_is_none_of_direct_get_is_an_error() -> None:
    for block in (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\nNats-Stream: S\r\n\r\n"):
        with pytest.raises(ProtocolError):
            from_direct([block], [b""], with_headers=True, with_data=True)


@pytest.mark.parametrize(
    "reply",
    [
        f"$JS.ACK.S.C.1.17.1.{_NS}.5",
        f"$JS.ACK._.hash.S.C.1.17.1.{_NS}.5",
        f"$JS.ACK.hub.hash.S.C.1.17.1.{_NS}.5.more",
    ],
)
def test_deliveries_have_sequence_and_time_in_their_ack_subject(reply: str) -> None:
    raw = from_deliveries(
        [b"a.b"], [reply.encode()], [b""], [b"data"], with_headers=True, with_data=True
    )
    assert _rows(raw) == [(17, "a.b", _NS, None, b"data", 4)]


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (b"a.\xff", "a. ff"),
        (b"nul\0", "nul 00"),
        ("é.\u200c".encode(), "é.\u200c"),
        (b"l" * 3900, "l" * 3900),
        (b"\xed\xa0\x80", " ed a0 80"),
    ],
)
def test_every_subject_has_the_text_that_sql_shows(subject: bytes, text: str) -> None:
    assert text_of(subject) == stored_text(subject) == text
    raw = from_deliveries(
        [b"plain", subject],
        [b"$JS.ACK.S.C.1.17.1.7.5"] * 2,
        [b""] * 2,
        [b""] * 2,
        with_headers=True,
        with_data=True,
    )
    assert raw.arrays[1].to_pylist() == ["plain", text]
    block = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: %b\r\nNats-Sequence: 1\r\n"
    block += b"Nats-Time-Stamp: %b\r\n\r\n"
    direct = from_direct(
        [block % (subject, _TIME.encode())], [b""], with_headers=True, with_data=True
    )
    assert direct.arrays[1].to_pylist() == [text]


def test_deliveries_of_headers_have_the_size_apart_from_the_headers() -> None:
    reply = f"$JS.ACK.S.C.1.17.1.{_NS}.5".encode()
    own = b"NATS/1.0\r\nNats-Msg-Size: 12\r\nA: b\r\nNats-Msg-Size: 99\r\n\r\n"
    raw = from_deliveries(
        [b"a", b"b"],
        [reply, reply],
        [b"NATS/1.0\r\nNats-Msg-Size: 1234\r\n\r\n", own],
        [b"", b""],
        with_headers=True,
        with_data=False,
    )
    assert [row[5] for row in _rows(raw)] == [1234, 99]
    assert [row[3] for row in _rows(raw)] == [
        None,
        b"NATS/1.0\r\nNats-Msg-Size: 12\r\nA: b\r\n\r\n",
    ]


def test_rows_behind_the_end_are_dropped() -> None:
    raw = from_direct(
        [_direct(1), _direct(5), _direct(9)], [b"", b"", b""], with_headers=True, with_data=True
    )
    assert [row[0] for row in _rows(rows_through(raw, 5))] == [1, 5]


def test_a_status_is_no_header_of_a_message() -> None:
    status = status_of(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\n\r\n")
    assert status is not None
    assert (status.code, status.text) == (204, "EOB")
    assert status.headers == {"Nats-Num-Pending": "3"}
    assert status_of(b"NATS/1.0\r\nA: 204\r\n\r\n") is None
    bare = status_of(b"NATS/1.0 503\r\n\r\n")
    assert bare is not None
    assert (bare.code, bare.text) == (503, "")


def test_the_value_of_a_header_is_found_by_its_exact_name() -> None:
    block = b"NATS/1.0\r\nNats-Msg-Idx: no\r\nNats-Msg-Id:  yes \r\n\r\n"
    assert first_value(block, b"Nats-Msg-Id") == b"yes"
    assert first_value(block, b"nats-msg-id") is None


def test_times_are_exact_to_the_nanosecond() -> None:
    assert nanoseconds(_TIME) == _NS
    assert nanoseconds("0001-01-01T00:00:00Z") == 0
