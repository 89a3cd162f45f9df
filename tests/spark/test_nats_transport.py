"""The transport `nats` reads a stream as it is, of nats-server and of jetgate, in three ways."""

# Subject: Spark over NATS

import base64
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats import direct as nats_direct
from pyspark_jetstream.nats.reading import Limits
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.transport.base import RAW_SCHEMA, Consumer, Wanted
from pyspark_jetstream.transport.errors import NotReachable, StreamNotFound
from pyspark_jetstream.transport.nats import NatsTransport

from tests.spark.proxies import Proxy
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

Server = NatsServer | JetgateServer
Make = Callable[..., str]
Stored = list[tuple[int, str, bytes | None, bytes]]
"""Sequence, subject, header block, payload."""

_HEADERS = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nNats-Stream: forged\r\n\r\n"
_names = count(1)
_WAYS = ["direct", "pulls", "gets"]


def _transport(server: Server, **options: Any) -> NatsTransport:
    host, port = server.address
    limits = Limits(rows=7)
    return NatsTransport(Settings((f"nats://{host}:{port}",), timeout=20), limits, **options)


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.address) as connected:
        connected.hello()
        yield connected


@pytest.fixture
def make(wire: Wire) -> Iterator[Make]:
    """Create a stream with 40 messages on three subjects; every fifth has headers."""
    made: list[str] = []

    def create(count: int = 40, **config: Any) -> str:
        name = f"READ{next(_names)}"  # nats-server may meet remains of a stream with an old one
        made.append(name)
        config = {"name": name, "subjects": [f"{name}.>"]} | config
        answer = wire.api(f"STREAM.CREATE.{name}", config)
        assert "error" not in answer, answer
        publish(wire, name, 1, count)
        return name

    yield create
    for name in made:
        wire.api(f"STREAM.DELETE.{name}")


def publish(wire: Wire, name: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        headers = _HEADERS if number % 5 == 0 else b""
        subject = f"{name}.{'abc'[number % 3]}"
        wire.request(subject, b"%d" % number * (number % 4), headers)


def stored(wire: Wire, name: str) -> Stored:
    """What STREAM.MSG.GET says is there."""
    last = wire.api(f"STREAM.INFO.{name}")["state"]["last_seq"]
    found: Stored = []
    for seq in range(1, last + 1):
        message = wire.api(f"STREAM.MSG.GET.{name}", {"seq": seq}).get("message")
        if message is not None:
            headers = base64.b64decode(message["hdrs"]) if "hdrs" in message else None
            payload = base64.b64decode(message.get("data", ""))
            found.append((seq, message["subject"], headers, payload))
    return found


def read(
    transport: NatsTransport, name: str, first: int, last: int, filters: tuple[str, ...] = ()
) -> Stored:
    """The rows of all pages, whose promises are checked."""
    rows: list[dict[str, Any]] = []
    through = first - 1
    for page in transport.pages(name, first, last, filters, Wanted()):
        assert page.rows.schema.equals(RAW_SCHEMA)
        found = page.rows.to_pylist()
        assert all(through < row["seq"] <= page.through for row in found)
        assert page.through > through
        assert page.head.stream == name
        through = page.through
        rows += found
    assert through == last
    sequences = [row["seq"] for row in rows]
    assert sequences == sorted(set(sequences))
    assert all(row["size"] == len(row["data"]) for row in rows)
    return [(row["seq"], row["subject"], row["headers"], row["data"]) for row in rows]


def way_of(way: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration of a stream and options of a transport that lead to a way of reading."""
    if way == "direct":
        return {"allow_direct": True}, {}
    return ({} if way == "pulls" else {"retention": "workqueue"}), {"direct": False}


@pytest.mark.parametrize("way", _WAYS)
def test_a_range_is_read_exactly(server: Server, wire: Wire, make: Make, way: str) -> None:
    config, options = way_of(way)
    name = make(**config)
    transport = _transport(server, **options)
    there = stored(wire, name)
    assert read(transport, name, 1, 40) == there
    assert read(transport, name, 8, 21) == there[7:21]
    assert read(transport, name, 40, 40) == there[39:]
    consumers = wire.api(f"CONSUMER.NAMES.{name}")["consumers"]
    assert not consumers, "a reader leaves nothing behind"
    assert wire.api(f"STREAM.INFO.{name}")["state"]["messages"] == 40
    transport.close()


@pytest.mark.parametrize("way", _WAYS)
def test_removed_messages_are_skipped(server: Server, wire: Wire, make: Make, way: str) -> None:
    config, options = way_of(way)
    name = make(**config)
    for seq in (3, 4, 5, *range(12, 30), 39, 40):
        assert wire.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})["success"]
    assert wire.api(f"STREAM.PURGE.{name}", {"seq": 2})["success"]
    transport = _transport(server, **options)
    there = stored(wire, name)
    assert [row[0] for row in there] == [2, *range(6, 12), *range(30, 39)]
    assert read(transport, name, 1, 40) == there
    assert read(transport, name, 13, 29) == []
    assert read(transport, name, 39, 40) == []
    transport.close()


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("tails", [("a",), ("*",), (">",), ("a", "c"), ("nobody",)])
def test_filters_are_evaluated_at_the_source(
    server: Server, wire: Wire, make: Make, way: str, tails: tuple[str, ...]
) -> None:
    config, options = way_of(way)
    name = make(**config)
    transport = _transport(server, **options)
    chosen = [row for row in stored(wire, name) if tails[0] in "*>" or row[1][-1] in tails]
    assert read(transport, name, 2, 39, tuple(f"{name}.{tail}" for tail in tails)) == [
        row for row in chosen if 2 <= row[0] <= 39
    ]
    transport.close()


@pytest.mark.parametrize("way", _WAYS)
def test_columns_that_are_not_wanted_are_null(
    server: Server, wire: Wire, make: Make, way: str
) -> None:
    config, options = way_of(way)
    name = make(**config)
    transport = _transport(server, **options)
    pages = transport.pages(name, 1, 40, (), Wanted(headers=True, data=False))
    rows = [row for page in pages for row in page.rows.to_pylist()]
    there = stored(wire, name)
    assert [(row["seq"], row["subject"], row["headers"]) for row in rows] == [
        row[:3] for row in there
    ]
    assert all(row["data"] is None for row in rows)
    assert [row["size"] for row in rows] == [len(row[3]) for row in there]
    bare = transport.pages(name, 1, 40, (), Wanted(headers=False, data=False))
    assert all(row["headers"] is None for page in bare for row in page.rows.to_pylist())
    transport.close()


def test_times_are_those_of_the_stream_in_every_way(server: Server, wire: Wire, make: Make) -> None:
    name = make(12, allow_direct=True)
    times = []
    for options in ({}, {"direct": False}):
        transport = _transport(server, **options)
        pages = transport.pages(name, 1, 12, (), Wanted())
        times.append([row["ts"] for page in pages for row in page.rows.to_pylist()])
        one = next(transport.points(name, [5], Wanted()))
        assert one.rows.to_pylist()[0]["ts"] == times[-1][4]
        transport.close()
    assert times[0] == times[1]
    assert times[0] == sorted(times[0])


def test_the_head_is_that_of_stream_info(server: Server, wire: Wire, make: Make) -> None:
    name = make(9)
    wire.api(f"STREAM.PURGE.{name}", {"seq": 4})
    transport = _transport(server)
    head = transport.head(name)
    info = wire.api(f"STREAM.INFO.{name}")
    assert (head.first_seq, head.last_seq, head.messages) == (4, 9, 6)
    assert head.bytes == info["state"]["bytes"]
    assert str(head.last_ts)[-9:].rstrip("0") in info["state"]["last_ts"]
    wire.api(f"STREAM.PURGE.{name}", {})
    empty = transport.head(name)
    assert (empty.first_seq, empty.last_seq, empty.messages) == (10, 9, 0)
    assert empty.incarnation == head.incarnation
    wire.api(f"STREAM.DELETE.{name}")
    with pytest.raises(StreamNotFound, match=name):
        transport.head(name)
    wire.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
    assert transport.head(name).incarnation != head.incarnation
    transport.close()


def test_a_time_is_found_as_a_sequence(server: Server, wire: Wire, make: Make) -> None:
    name = make(10)
    transport = _transport(server)
    pages = transport.pages(name, 1, 10, (), Wanted())
    times = [row["ts"] for page in pages for row in page.rows.to_pylist()]
    assert transport.seq_at(name, 0) == 1
    assert transport.seq_at(name, times[6]) == 7
    assert transport.seq_at(name, times[6] - 1) == 7
    assert transport.seq_at(name, times[6] + 1) == 8
    assert transport.seq_at(name, times[9] + 1) == 11
    transport.close()


def test_single_sequences_are_read_dense_or_far_apart(
    server: Server, wire: Wire, make: Make
) -> None:
    name = make(120, allow_direct=True)
    wire.api(f"STREAM.MSG.DELETE.{name}", {"seq": 60})
    transport = _transport(server)
    asked = [1, 2, 9, 60, 61, 100, 119, 500]
    pages = list(transport.points(name, asked, Wanted()))
    rows = [row["seq"] for page in pages for row in page.rows.to_pylist()]
    assert rows == [1, 2, 9, 61, 100, 119]
    transport.close()


@pytest.mark.parametrize("direct", [True, False])
def test_the_newest_message_of_each_subject(
    server: Server, wire: Wire, make: Make, direct: bool
) -> None:
    name = make(40, allow_direct=True)
    transport = _transport(server, direct=direct)

    def newest(filters: tuple[str, ...], up_to: int | None) -> list[tuple[int, str]]:
        pages = transport.last_by_subject(name, filters, up_to, Wanted())
        return [(row["seq"], row["subject"]) for page in pages for row in page.rows.to_pylist()]

    a, b, c = f"{name}.a", f"{name}.b", f"{name}.c"
    assert newest((), None) == [(38, c), (39, a), (40, b)]
    assert newest((), 11) == [(9, a), (10, b), (11, c)]
    assert newest((a, c), 11) == [(9, a), (11, c)]
    assert newest((b,), None) == [(40, b)]
    assert newest((), 0) == []
    transport.close()


def test_more_subjects_than_one_request_may_name(server: Server, wire: Wire, make: Make) -> None:
    name = make(0, allow_direct=True, max_msgs_per_subject=1)
    for number in range(1100):
        wire.publish(f"{name}.k{number}", b"%d" % number)
    wire.flush()
    wire.request(f"{name}.k5", b"newer")
    host, port = server.address
    transport = NatsTransport(Settings((f"nats://{host}:{port}",), timeout=20), Limits(rows=100))
    pages = list(transport.last_by_subject(name, (), None, Wanted()))
    rows = [row for page in pages for row in page.rows.to_pylist()]
    assert len({row["subject"] for row in rows}) == len(rows) == 1100
    assert rows[-1]["subject"] == f"{name}.k5"
    assert rows[-1]["data"] == b"newer"
    transport.close()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("way", ["direct", "pulls"])
def test_a_broken_connection_is_made_again_and_nothing_is_lost(
    server: Server, wire: Wire, make: Make, way: str
) -> None:
    config, options = way_of(way)
    name = make(**config)
    there = stored(wire, name)
    with Proxy(server.address, [2000, 4500, 3000, 5000]) as proxy:
        host, port = proxy.address
        settings = Settings((f"nats://{host}:{port}",), timeout=20)
        transport = NatsTransport(settings, Limits(rows=7), **options)
        assert read(transport, name, 1, 40) == there
        assert proxy.connections >= 3
        transport.close()


def test_a_direct_get_that_is_never_answered_is_asked_again(
    server: Server, wire: Wire, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a server got while its storage was away."""
    monkeypatch.setattr(nats_direct, "_SILENCE", 0.2)
    config, options = way_of("direct")
    name = make(**config)
    there = stored(wire, name)
    with Proxy(server.address, lose=b"DIRECT.GET") as proxy:
        host, port = proxy.address
        transport = NatsTransport(Settings((f"nats://{host}:{port}",)), Limits(rows=7), **options)
        assert read(transport, name, 1, 40) == there
        assert proxy.held.is_set()
        assert proxy.connections >= 2  # or more, where another answer took that long too
        transport.close()


def test_a_server_that_is_gone_is_an_error_that_names_it(server: Server, make: Make) -> None:
    name = make(10)
    with Proxy(server.address, [500]) as proxy:
        host, port = proxy.address
    settings = Settings((f"nats://{host}:{port}",), retries=1)
    transport = NatsTransport(settings)
    with pytest.raises(NotReachable, match=f"{host}:{port}"):
        transport.head(name)


def test_a_sequence_that_the_server_does_not_know_yet_is_waited_for(
    server: Server, wire: Wire, make: Make
) -> None:
    name = make(10)
    host, port = server.address
    transport = NatsTransport(Settings((f"nats://{host}:{port}",), timeout=2))
    with pytest.raises(NotReachable, match=r"at sequence 10 .* goes to 12"):
        list(transport.pages(name, 5, 12, (), Wanted()))
    transport.close()


def test_a_page_has_the_head_after_its_rows(server: Server, wire: Wire, make: Make) -> None:
    name = make(40, allow_direct=True)
    transport = _transport(server)
    pages = transport.pages(name, 1, 40, (), Wanted())
    first = next(pages)
    assert first.head.first_seq == 1
    wire.api(f"STREAM.PURGE.{name}", {"seq": 31})
    rest = list(pages)
    assert rest[-1].head.first_seq == 31
    assert [row["seq"] for row in rest[-1].rows.to_pylist()][-1] == 40
    transport.close()


def test_consumers_are_listed_with_their_lag(server: Server, wire: Wire, make: Make) -> None:
    name = make(10)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    wire.api(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": config})
    wire.send(b"SUB in.box 9\r\n")
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.C", b"3", reply=b"in.box")
    frames = [wire.frame() for _ in range(3)]
    wire.publish(frames[0].reply.decode(), b"+ACK")
    wire.flush()
    transport = _transport(server)
    (found,) = transport.consumers(name)
    assert found == Consumer("C", 10, 3, 1, 2, 0, 7)
    assert (found.lag, found.ack_lag) == (7, 9)
    transport.close()


def test_a_mirror_that_answers_for_its_origin_is_not_believed(
    nats_server: NatsServer,
) -> None:
    with Wire(nats_server.address) as wire:
        wire.hello()
        wire.api(
            "STREAM.CREATE.ORIGIN", {"name": "ORIGIN", "subjects": ["o.>"], "allow_direct": True}
        )
        mirror = {"name": "COPY", "mirror": {"name": "ORIGIN"}, "mirror_direct": True}
        wire.api("STREAM.CREATE.COPY", mirror)
        for number in range(30):
            wire.request(f"o.{number}", b"x")
        # What the mirror alone lacks must not be missing in what is read of the origin.
        while wire.api("STREAM.INFO.COPY")["state"]["last_seq"] < 30:
            continue
        for seq in range(5, 25):
            wire.api("STREAM.MSG.DELETE.COPY", {"seq": seq})
        for _ in range(10):
            transport = _transport(nats_server)
            assert [row[0] for row in read(transport, "ORIGIN", 1, 30)] == list(range(1, 31))
            transport.close()
        wire.api("STREAM.DELETE.COPY")
        wire.api("STREAM.DELETE.ORIGIN")
