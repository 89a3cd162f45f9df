"""Fetching and acknowledging."""

# Subject: HTTP

import dataclasses
import json
import socket
import threading
from typing import Any

import pytest

from core.units import Seconds
from gateway.formats.ack_tokens import AckTokens
from tests.gateway.conftest import Stream
from tests.gateway.serving import SETTINGS, GatewayServer
from tests.gateway.web import Answer, Web
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer


def fetch(stream: Stream, consumer: str, **request: object) -> list[dict[str, Any]]:
    answer = stream.web.json("POST", consumer + ":fetch", request)
    assert answer.status in (200, 204), answer
    messages: list[dict[str, Any]] = answer.json()["messages"] if answer.body else []
    return messages


def ack(stream: Stream, consumer: str, verb: str, tokens: list[str], **more: object) -> Answer:
    return stream.web.json("POST", f"{consumer}:{verb}", {"tokens": tokens} | more)


def counted(stream: Stream, consumer: str, count: int) -> None:
    """Wait until so many are pending: the reference counts them after publishers are answered."""
    eventually(lambda: stream.web.get(consumer).json()["num_pending"] == count)


def ack_pending(stream: Stream, consumer: str) -> int:
    return int(stream.web.get(consumer).json()["num_ack_pending"])


def test_an_ack_that_cannot_be_confirmed_fails_at_once(server: JetgateServer | NatsServer) -> None:
    """A server that was killed does not know its last deliveries, and says nothing of them."""
    patient = dataclasses.replace(SETTINGS, api_timeout=Seconds(3600.0))
    tokens = AckTokens(SETTINGS.ack_key)
    with GatewayServer(server.address, patient) as gateway:
        stream = Stream(Web(gateway.http), "FORGOTTEN", "forgotten")
        stream.web.json("PUT", stream.path, {"subjects": ["forgotten.>"]})
        consumer = stream.consumer()
        for text in (b"1", b"2"):
            stream.publish("a", text)
        counted(stream, consumer, 2)
        [first] = fetch(stream, consumer, batch=1)
        lost = tokens.seal(b"$JS.ACK.FORGOTTEN.C.1.2.2.1.0")

        answer = ack(stream, consumer, "ack", [first["token"], lost], sync=True).json()

        [failed] = answer["failed"]
        assert (answer["succeeded"], failed["token"]) == (1, lost)
        assert failed["problem"]["type"].endswith(":not-confirmed")
        [second] = fetch(stream, consumer, batch=1)
        assert second["text"] == "2"
        assert ack(stream, consumer, "ack", [lost], sync=True).json()["succeeded"] == 1
        stream.web.delete(stream.path)
        assert gateway.failures == []


def test_messages_are_fetched_and_acknowledged(stream: Stream) -> None:
    consumer = stream.consumer()
    for body in (b"1", b'{"n":2}'):
        stream.publish("a", body, Nats_H_X="y")
    counted(stream, consumer, 2)

    messages = fetch(stream, consumer, batch=10)
    answer = ack(stream, consumer, "ack", [m["token"] for m in messages], sync=True)

    assert [m["seq"] for m in messages] == [1, 2]
    assert (messages[0]["text"], messages[1]["data"]) == ("1", {"n": 2})
    assert messages[0]["headers"]["X"] == ["y"]
    assert [m["pending"] for m in messages] == [1, 0]
    assert answer.json() == {"succeeded": 2, "failed": []}
    assert ack_pending(stream, consumer) == 0


def test_an_empty_fetch_gives_the_reason(stream: Stream) -> None:
    consumer = stream.consumer()

    now = stream.web.json("POST", consumer + ":fetch", {"no_wait": True})
    later = stream.web.json("POST", consumer + ":fetch", {"expires": "50ms"})

    assert (now.status, now.headers["js-reason"]) == (204, "No Messages")
    assert (later.status, later.headers["js-reason"]) == (204, "Request Timeout")


def test_a_long_poll_answers_as_soon_as_a_message_comes(stream: Stream) -> None:
    consumer = stream.consumer()
    polls = [_background(stream, consumer, batch=10, expires="30s") for _ in range(3)]
    eventually(lambda: stream.web.get(consumer).json()["num_waiting"] == 3)

    for _ in polls:
        stream.publish("a")

    for thread, messages in polls:
        thread.join(60)
        assert messages


def test_fill_waits_for_the_whole_batch(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a")
    thread, messages = _background(stream, consumer, batch=2, expires="30s", fill=True)
    eventually(lambda: stream.web.get(consumer).json()["num_ack_pending"] == 1)

    stream.publish("a")

    thread.join(60)
    assert len(messages) == 2


def _background(
    stream: Stream, consumer: str, **request: object
) -> tuple[threading.Thread, list[dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: messages.extend(fetch(stream, consumer, **request)))
    thread.start()
    return thread, messages


def test_lines_are_streamed_as_messages_come(stream: Stream) -> None:
    consumer = stream.consumer()
    body = b'{"batch":3,"expires":"30s","fill":true}'
    head = (
        f"POST {consumer}:fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    head += f"Accept: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(stream.web.address, timeout=30) as sock:
        sock.sendall(head.encode() + body)
        reader = sock.makefile("rb")
        for number in (1, 2, 3):
            stream.publish("a")
            received = b""
            while not received.startswith(b"{"):
                received = reader.readline()
                assert received, "closed"
            assert json.loads(received)["seq"] == number


def test_a_caller_that_goes_away_leaves_no_request_behind(stream: Stream) -> None:
    consumer = stream.consumer()
    body = b'{"batch":5,"expires":"50s","fill":true}'
    head = (
        f"POST {consumer}:fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    with socket.create_connection(stream.web.address, timeout=30) as sock:
        sock.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        eventually(lambda: stream.web.get(consumer).json()["num_waiting"] == 1)
        stream.publish("a")
        eventually(lambda: ack_pending(stream, consumer) == 1)

    # What it was given before is given to the next one at once, not after the ack wait.
    messages = fetch(stream, consumer, expires="30s")
    assert [(m["seq"], m["delivered"]) for m in messages] == [(1, 2)]
    assert stream.web.get(consumer).json()["num_waiting"] == 0


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_messages_that_a_caller_did_not_take_are_returned(stream: Stream, accept: str) -> None:
    path = stream.consumer("C", ack_wait=600_000_000_000)
    for _ in range(6):
        stream.publish("a", b"x" * 1_000_000)
    body = b'{"fill": true, "batch": 6, "expires": "10s"}'
    head = f"POST {path}:fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"

    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.settimeout(20)
        caller.connect(stream.web.address)
        caller.sendall(head.encode() + body)
        assert b" 200 OK" in caller.recv(100)  # the answer has begun, and most of it is still there
        eventually(lambda: ack_pending(stream, path) == 6)

    again: dict[int, int] = {}

    def last_is_there() -> bool:
        for message in fetch(stream, path, batch=6, no_wait=True):
            again[message["seq"]] = message["delivered"]
        return 6 in again

    eventually(last_is_there, within=30)
    assert set(again.values()) == {2}


def test_nak_delivers_again(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a")
    (first,) = fetch(stream, consumer)

    ack(stream, consumer, "nak", [first["token"]], delay="20ms")

    (again,) = fetch(stream, consumer, expires="30s")
    assert (again["seq"], again["delivered"]) == (1, 2)


def test_term_and_progress(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a")
    (message,) = fetch(stream, consumer)

    progress = ack(stream, consumer, "progress", [message["token"]], sync=True)
    assert (progress.json()["succeeded"], ack_pending(stream, consumer)) == (1, 1)
    term = ack(stream, consumer, "term", [message["token"]], reason="bad", sync=True)
    assert (term.json()["succeeded"], ack_pending(stream, consumer)) == (1, 0)


def test_a_token_that_was_made_up_does_nothing(stream: Stream) -> None:
    consumer = stream.consumer()
    other = stream.consumer("D")
    stream.publish("a")
    (message,) = fetch(stream, consumer)
    token: str = message["token"]
    forged = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")

    answer = ack(stream, consumer, "ack", [forged, "", "x" * 30, token + "=", "é" * 24], sync=True)
    foreign = ack(stream, other, "ack", [token], sync=True)

    kinds = {f["problem"]["type"].rpartition(":")[2] for f in answer.json()["failed"]}
    assert (answer.status, answer.json()["succeeded"], kinds) == (200, 0, {"bad-token"})
    assert foreign.json()["failed"][0]["problem"]["type"].endswith(":foreign-token")
    assert ack_pending(stream, consumer) == 1


def test_acks_of_a_deleted_consumer_fail_by_token(stream: Stream) -> None:
    consumer = stream.consumer()
    stream.publish("a")
    (message,) = fetch(stream, consumer)
    stream.web.delete(consumer)

    answer = ack(stream, consumer, "ack", [message["token"]], sync=True).json()

    assert answer["succeeded"] == 0
    assert answer["failed"][0]["problem"]["status"] == 404


def test_fetching_from_nothing_is_not_found(stream: Stream) -> None:
    no_consumer = stream.web.json("POST", f"{stream.path}/consumers/NO:fetch", {})
    no_stream = stream.web.json("POST", "/v1/streams/NO/consumers/NO:fetch", {})

    assert (no_consumer.status, no_consumer.json()["err_code"]) == (404, 10014)
    assert (no_stream.status, no_stream.json()["err_code"]) == (404, 10059)


def test_a_push_consumer_is_not_fetched_from(stream: Stream) -> None:
    consumer = stream.consumer(deliver_subject="to.somewhere")

    answer = stream.web.json("POST", consumer + ":fetch", {})

    assert answer.status == 409


def test_max_bytes_bounds_a_fetch(stream: Stream) -> None:
    consumer = stream.consumer()
    for _ in range(5):
        stream.publish("a", b"x" * 1000)
    counted(stream, consumer, 5)

    assert len(fetch(stream, consumer, batch=5, max_bytes=2500, no_wait=True)) == 2
