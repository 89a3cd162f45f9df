"""What can be done with a consumer: pausing, resetting, groups, heartbeats, acks with a fetch."""

# Subject: HTTP

import json
import socket

from tests.gateway.conftest import Stream
from tests.gateway.test_consuming import ack, ack_pending, counted, fetch
from tests.support.eventually import eventually

_SECOND = 1_000_000_000


def test_a_paused_consumer_delivers_after_it_is_resumed(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a")
    post = stream.web.json

    paused = post("POST", consumer + ":pause", {"duration": "1h"}).json()
    while_paused = fetch(stream, consumer, no_wait=True)
    resumed = stream.web.send("POST", consumer + ":resume").json()
    until = post("POST", consumer + ":pause", {"until": "2099-01-01T00:00:00Z"}).json()
    stream.web.send("POST", consumer + ":resume")

    assert paused["paused"]
    assert 3500 * _SECOND < paused["pause_remaining"] <= 3600 * _SECOND
    assert while_paused == []
    assert resumed == {"paused": False}
    assert until["pause_until"] == "2099-01-01T00:00:00Z"
    assert len(fetch(stream, consumer, expires="30s")) == 1


def test_a_pause_reports_its_length(stream: Stream) -> None:
    consumer = stream.consumer()
    for body in ({}, {"until": "soon"}, {"duration": "1s", "until": "2099-01-01T00:00:00Z"}):
        assert stream.web.json("POST", consumer + ":pause", body).status == 400
    missing = stream.web.json("POST", f"{stream.path}/consumers/NO:pause", {"duration": "1s"})
    assert (missing.status, missing.json()["err_code"]) == (404, 10014)


def test_a_reset_consumer_delivers_again(stream: Stream) -> None:
    consumer = stream.consumer()
    for _ in range(3):
        stream.publish("a")
    counted(stream, consumer, 3)
    tokens = [message["token"] for message in fetch(stream, consumer)]
    ack(stream, consumer, "ack", tokens, sync=True)

    back = stream.web.json("POST", consumer + ":reset", {"seq": 2})
    again = fetch(stream, consumer, expires="30s")
    everything = stream.web.json("POST", consumer + ":reset", {})

    assert (back.status, back.json()["reset_seq"]) == (200, 2)
    assert [message["seq"] for message in again] == [2, 3]
    # Without a sequence it goes on behind what was acknowledged.
    assert everything.json()["ack_floor"]["stream_seq"] == everything.json()["reset_seq"] - 1
    missing = stream.web.json("POST", f"{stream.path}/consumers/NO:reset", {})
    assert (missing.status, missing.json()["err_code"]) == (404, 10014)


def test_ack_next_acknowledges_and_fetches(stream: Stream) -> None:
    consumer = stream.consumer()
    for _ in range(4):
        stream.publish("a")
    counted(stream, consumer, 4)
    first = fetch(stream, consumer, batch=2)
    tokens = [message["token"] for message in first]
    path = consumer + ":ack-next"

    next_two = stream.web.json("POST", path, {"tokens": [*tokens, "x"], "batch": 5}).json()
    assert (next_two["succeeded"], [m["seq"] for m in next_two["messages"]]) == (2, [3, 4])
    assert [failed["token"] for failed in next_two["failed"]] == ["x"]
    eventually(lambda: ack_pending(stream, consumer) == 2)

    tokens = [message["token"] for message in next_two["messages"]]
    none = stream.web.json("POST", path, {"tokens": tokens, "no_wait": True})
    assert (none.status, none.json()) == (200, {"succeeded": 2, "failed": [], "messages": []})
    eventually(lambda: ack_pending(stream, consumer) == 0)
    bad = stream.web.json("POST", path, {"tokens": ["x"], "no_wait": True}).json()
    assert (bad["succeeded"], bad["messages"]) == (0, [])


def test_a_pinned_client_shows_its_pin(stream: Stream) -> None:
    consumer = stream.consumer(
        priority_policy="pinned_client", priority_groups=["G"], priority_timeout=60 * _SECOND
    )
    for _ in range(3):
        stream.publish("a")
    counted(stream, consumer, 3)

    (first,) = fetch(stream, consumer, group="G", batch=1)
    pin = first["headers"]["Nats-Pin-Id"][0]
    (second,) = fetch(stream, consumer, group="G", pin_id=pin, batch=1)
    other = stream.web.json("POST", consumer + ":fetch", {"group": "G", "pin_id": "x" + pin})
    unpinned = stream.web.json("POST", consumer + ":unpin", {"group": "G"})
    (third,) = fetch(stream, consumer, group="G", batch=1)

    assert [first["seq"], second["seq"], third["seq"]] == [1, 2, 3]
    assert (other.status, other.kind) == (423, "pinned-to-another")
    assert unpinned.status == 204
    assert third["headers"]["Nats-Pin-Id"] != [pin]
    no_group = stream.web.json("POST", consumer + ":fetch", {})
    assert (no_group.status, "Group" in no_group.json()["detail"]) == (400, True)


def test_an_overflow_client_waits_for_enough(stream: Stream) -> None:
    consumer = stream.consumer(priority_policy="overflow", priority_groups=["G"])
    stream.publish("a")
    counted(stream, consumer, 1)

    few = fetch(stream, consumer, group="G", min_pending=2, expires="50ms")
    stream.publish("a")
    counted(stream, consumer, 2)
    enough = fetch(stream, consumer, group="G", min_pending=2, expires="30s")

    assert few == []
    assert enough[0]["seq"] == 1


def test_the_first_priority_is_served_first(stream: Stream) -> None:
    consumer = stream.consumer(priority_policy="prioritized", priority_groups=["G"])

    def waiting(count: int) -> bool:
        return bool(stream.web.get(consumer).json()["num_waiting"] == count)

    request = {"group": "G", "expires": "30s", "batch": 1, "fill": True}
    second = stream.web.later(
        lambda: stream.web.json("POST", consumer + ":fetch", request | {"priority": 5})
    )
    eventually(lambda: waiting(1))
    first = stream.web.later(
        lambda: stream.web.json("POST", consumer + ":fetch", request | {"priority": 0})
    )
    eventually(lambda: waiting(2))
    stream.publish("a", b"1")
    assert first().json()["messages"][0]["seq"] == 1
    stream.publish("a", b"2")
    assert second().json()["messages"][0]["seq"] == 2


def test_heartbeats_are_blank_lines(stream: Stream) -> None:
    consumer = stream.consumer()
    body = b'{"batch":1,"expires":"30s","heartbeat":"100ms"}'
    head = (
        f"POST {consumer}:fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    head += f"Accept: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(stream.web.address, timeout=30) as sock:
        sock.sendall(head.encode() + body)
        reader = sock.makefile("rb")
        assert reader.readline().startswith(b"HTTP/1.1 200")
        while reader.readline() != b"\r\n":
            pass
        assert reader.readline() == b"1\r\n"  # a chunk of one byte
        assert reader.readline() == b"\n"
        stream.publish("a")
        while not (line := reader.readline()).startswith(b"{"):
            assert line, "closed"
    assert json.loads(line)["seq"] == 1


def test_heartbeats_that_cannot_be_are_refused(stream: Stream) -> None:
    consumer = stream.consumer()
    too_long = {"heartbeat": "6s", "expires": "10s"}

    long = stream.web.json("POST", consumer + ":fetch", too_long, Accept="application/x-ndjson")
    document = stream.web.json("POST", consumer + ":fetch", {"heartbeat": "1s"})

    assert (long.status, document.status) == (400, 400)


def test_a_raw_fetch_is_the_message_itself(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a", b"<b>", Content_Type="text/plain", Nats_H_X="y")

    raw = stream.web.json("POST", consumer + ":fetch", {"raw": True})
    token = raw.headers["js-token"]
    assert ack(stream, consumer, "ack", [token], sync=True).json()["succeeded"] == 1
    empty = stream.web.json("POST", consumer + ":fetch", {"raw": True, "no_wait": True})
    many = stream.web.json("POST", consumer + ":fetch", {"raw": True, "batch": 2})

    assert (raw.status, raw.body, raw.headers["content-type"]) == (200, b"<b>", "text/plain")
    assert (raw.headers["nats-sequence"], raw.headers["nats-h-x"]) == ("1", "y")
    assert (raw.headers["js-delivered"], raw.headers["js-pending"]) == ("1", "0")
    assert (empty.status, many.status) == (204, 400)
