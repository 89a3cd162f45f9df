"""Feeds of a bucket: what is there, what changes, and going on where one was."""

# Subject: key-value, HTTP

import json
from dataclasses import replace

import pytest

from core.units import Seconds
from tests.gateway.conftest import Store
from tests.gateway.feeds import FeedReader
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Web
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer


def _watch(bucket: Store, query: str = "", **headers: str) -> FeedReader:
    return FeedReader(bucket.web, f"{bucket.path}:watch{query}", **headers)


def _shown(line: dict[str, object]) -> tuple[object, ...]:
    return line["event"], line["key"], line["revision"], line.get("text")


def test_current_values_come_first_then_changes(bucket: Store) -> None:
    bucket.revision("a", b"old")
    bucket.revision("a", b"1")
    bucket.revision("b", b"2")
    with _watch(bucket) as feed:
        assert feed.line()["event"] == "open"
        assert [_shown(line) for line in feed.until("ready")] == [
            ("put", "a", 2, "1"),
            ("put", "b", 3, "2"),
        ]
        bucket.revision("c", b"3")
        bucket.web.delete(bucket.at("a"))
        bucket.web.send("POST", bucket.at("b", ":purge"))
        changes = [feed.line() for _ in range(3)]
    assert [_shown(line) for line in changes] == [
        ("put", "c", 4, "3"),
        ("delete", "a", 5, None),
        ("purge", "b", 6, None),
    ]
    assert [line["operation"] for line in changes] == ["PUT", "DEL", "PURGE"]


def test_an_empty_bucket_is_ready_at_once(bucket: Store) -> None:
    with _watch(bucket) as feed:
        assert [feed.line()["event"], feed.line()["event"]] == ["open", "ready"]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?history=true", [("put", 1), ("put", 2), ("put", 3), ("delete", 4)]),
        ("?ignore_deletes=true", [("put", 2)]),
        ("?keys=a", [("put", 2)]),
        ("?keys=b.*,c", [("delete", 4)]),
        ("?updates_only=true", []),
    ],
)
def test_a_feed_shows_what_was_asked_for(
    bucket: Store, query: str, wanted: list[tuple[str, int]]
) -> None:
    bucket.revision("a", b"1")
    bucket.revision("a", b"2")
    bucket.revision("b.x", b"3")
    bucket.web.delete(bucket.at("b.x"))
    with _watch(bucket, query) as feed:
        assert feed.line()["event"] == "open"
        lines = feed.until("ready")
    assert [(line["event"], line["revision"]) for line in lines] == wanted


def test_values_may_be_left_out(bucket: Store) -> None:
    bucket.revision("a", b"a value")
    with _watch(bucket, "?meta_only=true") as feed:
        feed.line()
        (entry,) = feed.until("ready")
    assert not {"text", "data", "data_base64"} & set(entry)


def test_events_have_ids_to_go_on_from(bucket: Store) -> None:
    bucket.revision("a", b"1")
    with _watch(bucket, Accept="text/event-stream") as feed:
        assert feed.answer.headers["content-type"].startswith("text/event-stream")
        assert feed.event()[0] == "open"
        kind, place, data = feed.event()
        assert (kind, data["text"], data["position"]) == ("put", "1", place)
        kind, ready, _ = feed.event()
        assert kind == "ready"
    bucket.revision("b", b"2")

    with _watch(bucket, Accept="text/event-stream", Last_Event_ID=ready) as feed:
        _, _, begun = feed.event()
        assert begun["recovered"] is True
        assert feed.event()[2]["text"] == "2"
        assert feed.event()[0] == "ready"
    with _watch(bucket, f"?last_event_id={ready}") as feed:
        assert feed.line()["recovered"] is True


def test_a_feed_that_cannot_go_on_begins_anew_and_reports_it(bucket: Store) -> None:
    bucket.revision("a", b"1")
    with _watch(bucket) as feed:
        feed.until("ready")
        position = f"{feed_incarnation(bucket)}:1"
    bucket.revision("a", b"2")
    born = position.partition(":")[0]

    def begun(at: str) -> tuple[bool, list[object]]:
        with _watch(bucket, Last_Event_ID=at) as feed:
            opened = feed.line()
            return opened["recovered"], [line["revision"] for line in feed.until("ready")]

    assert begun(position) == (True, [2])
    assert begun(f"{born}:2") == (True, [])
    assert begun(f"{born}:3") == (False, [2])  # what never was
    assert begun(f"{int(born) + 1}:1") == (False, [2])  # another bucket of this name
    bucket.web.json("POST", bucket.info + ":purge", {"seq": 2})
    assert begun(f"{born}:0") == (False, [2])  # what is gone
    for bad in ("x", "1:", ":1", "1:-1"):
        answer = bucket.web.get(bucket.path + ":watch", Last_Event_ID=bad)
        assert (answer.status, answer.kind) == (400, "bad-parameter")
        both = f"{bucket.path}:watch?last_event_id={bad}"
        answer = bucket.web.get(both, Last_Event_ID=position)
        assert (answer.status, answer.kind) == (400, "bad-parameter")
    with _watch(bucket, f"?last_event_id={born}:1", Last_Event_ID=f"{born}:2") as feed:
        opened = feed.line()
        assert (opened["recovered"], opened["position"]) == (True, f"{born}:2")


def feed_incarnation(bucket: Store) -> str:
    with _watch(bucket) as feed:
        return str(feed.line()["position"]).partition(":")[0]


def _consumers(bucket: Store) -> list[str]:
    answer = bucket.web.get(bucket.info + "/consumers").json()
    return [consumer["name"] for consumer in answer["consumers"] or []]


@pytest.mark.parametrize("query", ["", "?updates_only=true"])
def test_a_feed_outlives_its_consumer_without_a_hole(bucket: Store, query: str) -> None:
    bucket.revision("a", b"1")
    with _watch(bucket, query) as feed:
        feed.until("ready")
        (name,) = _consumers(bucket)
        bucket.web.delete(f"{bucket.info}/consumers/{name}")
        bucket.revision("b", b"2")
        bucket.revision("c", b"3")
        assert [_shown(feed.line()) for _ in range(2)] == [
            ("put", "b", 2, "2"),
            ("put", "c", 3, "3"),
        ]
        assert _consumers(bucket) != [name]


def test_a_reader_that_disconnects_leaves_no_consumer(bucket: Store) -> None:
    with _watch(bucket) as feed:
        feed.until("ready")
        assert len(_consumers(bucket)) == 1

    assert eventually(lambda: not _consumers(bucket))
    bucket.revision("a")
    bucket.web.get(bucket.path + ":keys")
    bucket.web.get(bucket.at("a", ":history"))
    assert eventually(lambda: not _consumers(bucket))


def test_head_is_answered_without_a_feed(bucket: Store) -> None:
    bucket.revision("a")
    for path in (bucket.path + ":watch", bucket.path + ":keys", bucket.at("a", ":history")):
        answer = bucket.web.send("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")
    assert eventually(lambda: not _consumers(bucket))


def test_a_quiet_feed_shows_that_it_is_alive(nats_server: NatsServer) -> None:
    settings = replace(SETTINGS, feed_heartbeat=Seconds(0.05))
    with GatewayServer(nats_server.address, settings) as server:
        web = Web(server.http)
        web.json("PUT", "/v1/kv/quiet", {})
        for accept, beat in (("text/event-stream", b": heartbeat"), ("*/*", b'"heartbeat"}')):
            with FeedReader(web, "/v1/kv/quiet:watch", Accept=accept) as feed:
                while beat not in (line := feed.answer.readline()):
                    assert line
        web.delete("/v1/kv/quiet")


def test_a_feed_ends_with_its_bucket(bucket: Store) -> None:
    with _watch(bucket) as feed:
        feed.until("ready")
        bucket.web.delete(bucket.path)
        ended = feed.line()
        assert ended["event"] == "end"
        assert ended["problem"]["status"] == 404
        assert feed.answer.readline() == b""


def test_a_reader_that_does_not_read_is_sent_little(bucket: Store) -> None:
    value = b"x" * 500_000
    for number in range(60):
        bucket.revision(f"k.{number}", value)
    with _watch(bucket) as feed:
        assert feed.line()["event"] == "open"
        (name,) = _consumers(bucket)
        path = f"{bucket.info}/consumers/{name}"

        def delivered() -> int:
            return int(bucket.web.get(path).json()["delivered"]["consumer_seq"])

        def settled() -> int | None:
            count = delivered()
            return count if count and count == delivered() else None

        assert eventually(settled) < 30
        entries = feed.until("ready")
    assert len(entries) == 60
    assert json.dumps(entries).count("x" * 500_000) == 60


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("?history=true&updates_only=true", "bad-parameter"),
        ("?keys=a..b", "bad-key"),
        ("?keys=", "bad-key"),
        ("?keys=" + ",".join("abcdefgh" * 9), "bad-parameter"),
        ("?key=a", "unknown-parameter"),
    ],
)
def test_a_feed_of_nothing_is_refused(bucket: Store, query: str, kind: str) -> None:
    answer = bucket.web.get(bucket.path + ":watch" + query)
    assert (answer.status, answer.kind) == (400, kind)
