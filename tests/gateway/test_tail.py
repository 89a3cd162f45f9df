"""Streams as server-sent events, resumed by Last-Event-ID."""

# Subject: HTTP, feeds

import logging
from typing import Any

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.sockets import Events, following
from tests.gateway.web import Web


def seqs(events: Events, count: int) -> list[int]:
    return [events.next()["data"]["seq"] for _ in range(count)]


def begun(events: Events) -> dict[str, Any]:
    assert events.status == 200
    first = events.next()
    assert first["event"] == "position"
    assert first["id"] == events.head["js-last-event-id"]
    return first


def test_a_tail_begins_at_the_requested_position(stream: Stream) -> None:
    for number in range(4):
        stream.publish(f"k{number % 2}", b'{"n": %d}' % number)
    path = f"{stream.path}/tail"
    address = stream.web.address
    for begin, expected in [("all", [1, 2, 3, 4]), ("3", [3, 4]), ("last", [4])]:
        with following(address, f"{path}?from={begin}") as events:
            assert begun(events)["data"]["recovered"] is True
            assert seqs(events, len(expected)) == expected
    with following(address, f"{path}?from=2020-01-01T00:00:00Z&filter={stream.prefix}.k1") as one:
        begun(one)
        event = one.next()
    assert event["data"]["data"] == {"n": 1}
    assert event["data"]["subject"] == stream.subject("k1")
    assert event["data"]["stream"] == stream.name


def test_a_tail_is_resumed_behind_the_last_event(stream: Stream) -> None:
    path = f"{stream.path}/tail"
    with following(stream.web.address, path) as events:
        assert events.head["content-type"].startswith("text/event-stream")
        start = begun(events)
        stream.publish("a")
        last = events.next()["id"]
    stream.publish("a")
    with following(stream.web.address, path, Last_Event_ID=last) as events:
        assert begun(events)["data"]["recovered"] is True
        assert seqs(events, 1) == [2]
    with following(stream.web.address, f"{path}?last_event_id={start['id']}") as events:
        begun(events)
        assert seqs(events, 2) == [1, 2]


def test_a_position_that_is_gone_is_reported(stream: Stream) -> None:
    path = f"{stream.path}/tail"
    with following(stream.web.address, path) as events:
        incarnation = begun(events)["data"]["incarnation"]
    for _ in range(5):
        stream.publish("a")
    stream.web.json("POST", f"{stream.path}:purge", {"seq": 4})
    for last in (f"{incarnation}:1", "17:5", f"{incarnation}:99"):
        with following(stream.web.address, path, Last_Event_ID=last) as events:
            told = begun(events)["data"]
            assert told["recovered"] is False
            assert (told["first_seq"], told["last_seq"]) == (4, 5)
            assert told["incarnation"] == incarnation
            assert seqs(events, 2) == [4, 5]


def test_a_subject_is_followed_in_whatever_stream_keeps_it(stream: Stream) -> None:
    with following(stream.web.address, f"/v1/tail/{stream.prefix}.b.*") as events:
        assert begun(events)["data"]["stream"] == stream.name
        stream.publish("a")
        stream.publish("b.1")
        assert seqs(events, 1) == [2]


def test_a_tail_ends_with_its_stream(stream: Stream) -> None:
    with following(stream.web.address, f"{stream.path}/tail") as events:
        begun(events)
        stream.web.delete(stream.path)
        end = events.next()
        assert end["event"] == "end"
        assert end["data"]["status"] == 404
        with pytest.raises(EOFError):
            events.next()


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/v1/streams/NONE/tail", 404, "stream-not-found"),
        ("/v1/tail/nobody.keeps.this", 404, "no-stream"),
        ("/v1/streams/S/tail?from=yesterday", 400, "bad-parameter"),
        ("/v1/streams/S/tail?from=0", 400, "bad-parameter"),
        ("/v1/streams/S/tail?last_event_id=7", 400, "bad-parameter"),
        ("/v1/streams/S/tail?filter=a..b", 400, "bad-subject"),
        ("/v1/streams/S/tail?since=1", 400, "unknown-parameter"),
        ("/v1/streams/a.b/tail", 400, "bad-name"),
    ],
)
def test_streams_that_cannot_be_followed_are_refused(
    web: Web, path: str, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = web.get(path)
    assert (answer.status, answer.kind) == (status, kind)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_head_asks_for_no_events(stream: Stream) -> None:
    answer = stream.web.send("HEAD", f"{stream.path}/tail")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
