"""Streams and consumers: create, read, change, list, delete."""

# Subject: HTTP

import threading

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually


def test_put_creates_then_replaces(web: Web) -> None:
    path = "/v1/streams/PUT1"
    try:
        created = web.json("PUT", path, {"subjects": ["put1.>"], "max_msgs": 5})
        changed = web.json("PUT", path, {"subjects": ["put1.>"], "max_msgs": 6})

        assert (created.status, created.headers["location"]) == (201, path)
        assert changed.status == 200
        assert web.get(path).json()["config"]["max_msgs"] == 6
    finally:
        assert web.delete(path).status == 204


def test_patch_changes_only_what_it_names(stream: Stream) -> None:
    answer = stream.web.json("PATCH", stream.path, {"max_msgs": 7, "description": "x"})
    cleared = stream.web.json("PATCH", stream.path, {"description": None})

    assert answer.status == 200
    config = cleared.json()["config"]
    assert (config["max_msgs"], config["allow_direct"]) == (7, True)
    assert "description" not in config


def test_missing_resources_are_not_found(stream: Stream) -> None:
    missing = stream.web.get("/v1/streams/MISSING")
    consumer = stream.web.get(f"{stream.path}/consumers/MISSING")

    assert (missing.status, missing.json()["err_code"]) == (404, 10059)
    assert (consumer.status, consumer.json()["err_code"]) == (404, 10014)
    assert stream.web.delete("/v1/streams/MISSING").status == 404


def test_conflicts_are_reported(stream: Stream) -> None:
    config = {"name": stream.name, "subjects": ["other.>"]}
    taken = stream.web.json("POST", "/v1/streams", config)
    overlap = stream.web.json("PUT", "/v1/streams/OVERLAP", {"subjects": [f"{stream.prefix}.x"]})

    assert (taken.status, taken.json()["err_code"]) == (409, 10058)
    assert (overlap.status, overlap.json()["err_code"]) == (409, 10065)


def test_streams_are_listed(stream: Stream) -> None:
    query = f"?subject={stream.prefix}.%3E"
    listed = stream.web.get("/v1/streams" + query).json()
    names = stream.web.get("/v1/stream-names" + query).json()

    assert [item["config"]["name"] for item in listed["streams"]] == [stream.name]
    assert names["streams"] == [stream.name]
    assert listed["total"] == 1
    assert stream.web.get("/v1/stream-names?subject=nobody.here").json()["streams"] == []


def test_subjects_of_a_stream_are_counted(stream: Stream) -> None:
    for rest in ("a", "b", "b"):
        stream.publish(rest)

    everything = stream.web.get(f"{stream.path}/subjects").json()
    some = stream.web.get(f"{stream.path}/subjects?filter={stream.subject('b')}").json()
    beyond = stream.web.get(f"{stream.path}/subjects?offset=2").json()

    a, b = ({"subject": stream.subject(rest), "messages": n} for rest, n in (("a", 1), ("b", 2)))
    assert (everything["subjects"], everything["total"]) == ([a, b], 2)
    assert some["subjects"] == [b]
    assert beyond["subjects"] == []
    assert "subjects" not in stream.web.get(stream.path).json()["state"]


def test_purge_removes_what_it_names(stream: Stream) -> None:
    for rest in ("a", "b", "b", "c"):
        stream.publish(rest)
    purge = stream.path + ":purge"

    some = stream.web.json("POST", purge, {"filter": stream.subject("b"), "keep": 1})
    others = stream.web.send("POST", purge)

    assert (some.json(), others.json()) == ({"purged": 1}, {"purged": 3})


def test_a_message_is_deleted_once(stream: Stream) -> None:
    stream.publish("a")
    stream.publish("a")
    path = f"{stream.path}/messages/1"

    assert stream.web.delete(path).status == 204
    assert stream.web.delete(path).status == 404
    assert stream.web.get(path).status == 404
    assert stream.web.delete(f"{stream.path}/messages/99").status == 404


def test_consumers_live_and_die(stream: Stream) -> None:
    path = stream.consumer("C", ack_wait=5_000_000_000)
    replaced = stream.web.json("PUT", path, {"ack_policy": "explicit", "ack_wait": 6_000_000_000})
    patched = stream.web.json("PATCH", path, {"description": "d"})
    listed = stream.web.get(f"{stream.path}/consumers").json()

    assert replaced.status == 200
    assert patched.json()["config"]["ack_wait"] == 6_000_000_000
    assert [item["name"] for item in listed["consumers"]] == ["C"]
    assert stream.web.delete(path).status == 204
    assert stream.web.get(path).status == 404


def test_a_consumer_without_a_name_is_given_one(stream: Stream) -> None:
    answer = stream.web.json("POST", f"{stream.path}/consumers", {"ack_policy": "explicit"})

    assert answer.status == 201
    assert stream.web.get(answer.headers["location"]).json()["name"] == answer.json()["name"]


def test_a_second_create_of_a_consumer_conflicts(stream: Stream) -> None:
    config = {"durable_name": "C", "ack_policy": "explicit"}
    path = f"{stream.path}/consumers"
    stream.web.json("POST", path, config)

    answer = stream.web.json("POST", path, config | {"ack_policy": "none"})

    assert (answer.status, answer.json()["err_code"]) == (409, 10148)


def test_mistakes_in_a_configuration_are_the_callers(stream: Stream) -> None:
    unknown = stream.web.json("PATCH", stream.path, {"no_such_member": 1})
    wrong = stream.web.json("PATCH", stream.path, {"max_msgs": "many"})
    invalid = stream.web.json("PATCH", stream.path, {"duplicate_window": -1})

    assert [a.json()["err_code"] for a in (unknown, wrong, invalid)] == [10025, 10025, 10052]
    assert {a.status for a in (unknown, wrong, invalid)} == {400}


def test_a_place_is_a_url_whatever_the_name(web: Web) -> None:
    name = "é%41?#&:[日本]"
    made = web.json("POST", "/v1/streams", {"name": name, "subjects": ["place"]})
    place = made.headers["location"]
    config = {"durable_name": name, "ack_policy": "explicit"}
    consumer = web.json("POST", place + "/consumers", config)
    stored = web.publish("place", b"x")

    assert [answer.status for answer in (made, consumer, stored)] == [201, 201, 201]
    assert web.get(place).json()["config"]["name"] == name
    assert web.get(consumer.headers["location"]).json()["name"] == name
    assert web.get(stored.headers["location"]).body == b"x"
    assert web.delete(place).status == 204


@pytest.mark.parametrize("depth", [200, 253, 300, 1000])
def test_deep_nesting_is_the_callers_mistake(stream: Stream, depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = b'{"name":"C","ack_policy":"explicit","metadata":%s}' % deep
    other = b'{"subjects":["x"],"metadata":%s}' % deep
    asked = [
        ("POST", "/v1/streams", body),
        ("PUT", stream.path, other),
        ("PATCH", stream.path, other),
        ("POST", stream.path + "/consumers", body),
        ("PUT", stream.path + "/consumers/C", body),
    ]

    answers = [
        stream.web.send(method, path, sent, {"Content-Type": "application/json"})
        for method, path, sent in asked
    ]

    assert [answer.status for answer in answers] == [400] * len(asked)


def test_a_body_that_the_server_refuses_ends_no_connection(stream: Stream) -> None:
    """All callers share a connection: a request that it cannot carry must not end it."""
    path = stream.consumer()
    waiting: list[Answer] = []

    def wait() -> None:
        waiting.append(stream.web.json("POST", path + ":fetch", {"expires": "30s"}))

    other = threading.Thread(target=wait)
    other.start()
    eventually(lambda: stream.web.get(path).json()["num_waiting"] == 1)
    numbers = b",".join([b"1e15"] * 30_000)  # longer when it is written again
    body = b'{"description":"%s","metadata":[%s]}' % (b"a" * 700_000, numbers)
    answers = [
        stream.web.send(method, place, body, {"Content-Type": "application/json"})
        for method, place in (("PUT", stream.path), ("PATCH", stream.path), ("PUT", path))
    ]
    stream.publish("a")
    other.join(60)

    assert [(a.status, a.kind) for a in answers] == [(413, "body-too-large")] * 3
    assert [answer.status for answer in waiting] == [200]
