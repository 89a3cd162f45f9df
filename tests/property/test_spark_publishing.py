"""Published messages: what is under way stays within bounds, and all of it arrives, in order."""

# Subject: Spark sink

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats import publishing, tries
from pyspark_jetstream.nats.errors import Disconnected
from pyspark_jetstream.nats.parser import Columns
from pyspark_jetstream.nats.publishing import (
    Messages,
    NotStored,
    Publisher,
    acknowledge,
    error_of,
    operations,
    places,
    usual,
)
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.sink.ids import with_ids

REFUSAL = b'{"error":{"code":400,"err_code":10071,"description":"no"}}'


class _Stream:
    """What a server would store: by message id, and what was sent and not answered."""

    def __init__(self, refusal: bytes, turned: Random | None) -> None:
        self.refusal, self.turned = refusal, turned
        self.stored: dict[bytes, int] = {}
        self.order: list[bytes] = []
        self.waiting: list[tuple[bytes, bytes]] = []
        self.most = 0
        self.refuse = b""

    def receive(self, reply: bytes, payload: bytes) -> None:
        self.waiting.append((reply, payload))
        self.most = max(self.most, len(self.waiting))

    def answer(self, count: int) -> list[tuple[bytes, bytes]]:
        """Store the oldest messages; the subjects and payloads of their acknowledgements."""
        some, self.waiting = self.waiting[:count], self.waiting[count:]
        acks = []
        for reply, payload in some:
            if payload == self.refuse:
                acks.append((reply, self.refusal))
                continue
            known = payload in self.stored
            seq = self.stored.setdefault(payload, len(self.stored) + 1)
            if not known:
                self.order.append(payload)
            acks.append((reply, json.dumps({"stream": "S", "seq": seq}).encode()))
        if self.turned is not None:
            self.turned.shuffle(acks)
        return acks


class _Connection:
    """A connection to such a stream that answers some messages at a time and breaks at times."""

    def __init__(self, stream: _Stream, steps: "list[int]") -> None:
        self._stream = stream
        self._steps = steps
        self._columns = Columns()
        stream.waiting.clear()

    def subscribe(self, subject: str) -> tuple[bytes, Columns]:
        return b"1", self._columns

    def send(self, data: bytes) -> None:
        while data:
            line, _, data = data.partition(b"\r\n")
            _, _, reply, size = line.split()
            self._stream.receive(reply, data[: int(size)])
            data = data[int(size) + 2 :]

    def wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        while not ready():
            step = self._steps.pop(0) if self._steps else 1000
            if step < 0:
                self._stream.answer(-step)  # stored, but the answers are lost
                raise Disconnected("broken for a test")
            for subject, payload in self._stream.answer(step):
                self._columns.subjects.append(subject)
                self._columns.replies.append(b"")
                self._columns.headers.append(b"")
                self._columns.payloads.append(payload)

    def close(self) -> None:
        """Nothing to close."""


def _published(
    chunks: list[int],
    in_flight: int,
    most_bytes: int,
    steps: list[int],
    refuse: int | None = None,
    refusal: bytes = REFUSAL,
    turned: Random | None = None,
    target: str = "",
) -> tuple[_Stream, list[bytes]]:
    """Publish numbered messages in chunks; the stream and the acknowledgements handed on."""
    stream = _Stream(refusal, turned)
    acks: list[bytes] = []
    stream.refuse = b"%d" % refuse if refuse is not None else b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "Connection", lambda *_: _Connection(stream, steps))
        patch.setattr(tries, "pause", lambda seconds: None)
        publisher = Publisher(Settings(retries=100), in_flight, most_bytes, acks.extend, target)
        number = 0
        for size in chunks:
            payloads = [b"%d" % (number + n) for n in range(size)]
            number += size
            publisher.send(Messages([b"s"] * size, [b""] * size, payloads))
        publisher.finish()
    return stream, acks


_chunks = st.lists(st.integers(1, 9), max_size=12)


@given(_chunks, st.integers(1, 20), st.lists(st.integers(1, 7), max_size=30))
def test_no_more_messages_are_under_way_than_the_window_holds(
    chunks: list[int], in_flight: int, steps: list[int]
) -> None:
    stream, acks = _published(chunks, in_flight, 1 << 20, steps)
    assert stream.most <= max([in_flight, *chunks])
    assert [json.loads(ack)["seq"] for ack in acks] == list(range(1, sum(chunks) + 1))


@given(_chunks, st.integers(1, 20))
def test_no_more_bytes_are_under_way_than_the_window_holds(
    chunks: list[int], most_bytes: int
) -> None:
    stream, _ = _published(chunks, 1000, most_bytes, [])
    assert stream.most <= max([most_bytes, *chunks])


@given(_chunks, st.integers(1, 20), st.lists(st.integers(-5, 7).filter(bool), max_size=30))
def test_nothing_is_lost_or_out_of_order_when_connections_break(
    chunks: list[int], in_flight: int, steps: list[int]
) -> None:
    stream, acks = _published(chunks, in_flight, 1 << 20, steps)
    assert stream.order == [b"%d" % number for number in range(sum(chunks))]
    assert len(acks) == sum(chunks)


@given(_chunks.filter(bool), st.data())
def test_the_message_that_is_refused_is_named(chunks: list[int], data: st.DataObject) -> None:
    refused = data.draw(st.integers(0, sum(chunks) - 1))
    with pytest.raises(NotStored) as found:
        _published(chunks, 8, 1 << 20, [3, 2, 4], refused)
    assert found.value.place == refused
    assert found.value.error.err_code == 10071


@given(
    _chunks, st.integers(1, 20), st.lists(st.integers(-5, 7).filter(bool), max_size=30), st.data()
)
def test_answers_in_any_order_belong_to_their_messages(
    chunks: list[int], in_flight: int, steps: list[int], data: st.DataObject
) -> None:
    stream, acks = _published(chunks, in_flight, 1 << 20, steps, turned=data.draw(st.randoms()))
    assert [stream.stored[b"%d" % number] for number in range(sum(chunks))] == [
        json.loads(ack)["seq"] for ack in acks
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello",
        b"{",
        b"[]",
        b"{}",
        b'{"stream":5,"seq":"x"}',
        b'{"stream":"S","seq":"1"}',
        b'{"stream":"S","seq":true}',
        b'{"stream":"S"}',
        b'{"seq":1}',
        b'{"stream":{"seq":1},"b":[{"stream":"S","seq":1}]}',
        b'{"error":{"code":"x"}}',
        b'{"error":"no","stream":"S","seq":1}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_acknowledgement_is_an_error(answer: bytes) -> None:
    with pytest.raises(NotStored, match=r"message 1 to s was not stored: .*no") as found:
        _published([3], 8, 1 << 20, [], refuse=1, refusal=answer)
    assert found.value.place == 1


def test_an_acknowledgement_of_another_stream_is_an_error() -> None:
    answer = b'{"stream":"OTHER","seq":1}'
    for target in ("", "OTHER"):
        assert error_of(answer, b"", target) is None
    with pytest.raises(NotStored, match="stream 'OTHER' has answered, expected stream 'S'"):
        _published([3], 8, 1 << 20, [], refuse=1, refusal=answer, target="S")


@pytest.mark.parametrize("target", ["", "S"])
@pytest.mark.parametrize(
    "answer",
    [
        b'{"stream":"S","seq":1}',
        b'{"stream":"S", "seq":12,"duplicate": true}',
        b'{"stream":"S","seq":1,"domain":"hub","val":"5"}',
    ],
)
def test_answers_of_servers_are_recognized_without_reading_their_json(
    answer: bytes, target: str
) -> None:
    assert acknowledge([answer, answer], usual(target))
    assert error_of(answer, b"", target) is None


@given(st.text(), st.text())
def test_the_acknowledgements_that_are_known_are_those_of_the_stream(one: str, other: str) -> None:
    answer = json.dumps({"stream": one, "seq": 1}).encode()
    if acknowledge([answer], usual(other)):
        assert other in ("", one)
        assert error_of(answer, b"", other) is None


_columns = st.lists(
    st.tuples(
        st.sampled_from([b"s", b"a.b"]),
        st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\n\r\n"]),
        st.binary(max_size=5),
        st.sampled_from([None, None, b"ack"]),
    ),
    max_size=6,
)


@given(_columns)
def test_unacknowledged_messages_are_sent(
    rows: list[tuple[bytes, bytes, bytes, bytes | None]],
) -> None:
    subjects, blocks, payloads = ([row[part] or b"" for row in rows] for part in range(3))
    acks = [row[3] for row in rows]
    sent = operations(Messages(subjects, blocks, payloads), acks, places(b"r.", len(rows)))
    expected = b""
    for place, (subject, block, payload, ack) in enumerate(rows):
        size, reply = len(payload), b"r.%d" % place
        if ack is not None:
            continue
        if block:
            sizes = b"%d %d" % (len(block), len(block) + size)
            expected += b"HPUB %b %b %b\r\n%b%b\r\n" % (subject, reply, sizes, block, payload)
        else:
            expected += b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, size, payload)
    assert sent == expected


_rows = st.lists(
    st.tuples(st.binary(max_size=3), st.binary(max_size=3), st.binary(max_size=3)), max_size=8
)


def _ids(rows: list[tuple[bytes, bytes, bytes]], prefix: str = "app/1/0") -> list[bytes]:
    subjects, lines, payloads = ([row[part] for row in rows] for part in range(3))
    made = with_ids(prefix, 0, subjects, lines, payloads)
    return [block.split(b"\r\n")[1] for block in made]


@given(_rows, _rows)
def test_two_rows_have_one_id_only_if_they_are_the_same_at_the_same_place(
    one: list[tuple[bytes, bytes, bytes]], other: list[tuple[bytes, bytes, bytes]]
) -> None:
    first, second = _ids(one), _ids(other)
    assert len(set(first)) == len(one), "rows of one attempt never have the same id"
    for place, (mine, its) in enumerate(zip(first, second, strict=False)):
        assert (mine == its) == (one[place] == other[place])
    assert not set(first) & set(_ids(one, "app/2/0")), "batches have other ids"


def test_an_id_names_the_origin_of_a_row_and_its_own_id_is_kept() -> None:
    own = [b"A: b\r\n", b"Nats-Msg-Id: x\r\n"]
    blocks = with_ids("app/17/3", 204, [b"s", b"s"], own, [b"", b""])
    assert blocks[0].startswith(b"NATS/1.0\r\nNats-Msg-Id: app/17/3/204/")
    assert blocks[0].endswith(b"\r\nA: b\r\n\r\n")
    assert blocks[1] == b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n"
