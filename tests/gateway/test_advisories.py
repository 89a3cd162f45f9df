"""Advisories as server-sent events."""

# Subject: HTTP

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.gateway.conftest import Stream
from tests.gateway.web import Web
from tests.support.eventually import eventually
from tests.support.wire import Silence, Wire


class Events:
    """An event stream as a browser reads it."""

    def __init__(self, sock: socket.socket) -> None:
        self._reader = sock.makefile("rb")
        self.status = self._reader.readline()
        self.head = b""
        while (line := self._reader.readline()) != b"\r\n":
            self.head += line.lower()
        self._text = b""

    def next(self) -> dict[str, str]:
        """The fields of the next event; a comment has none."""
        while b"\n\n" not in self._text:
            size = int(self._reader.readline(), 16)
            assert size, "the end"
            self._text += self._reader.read(size)
            self._reader.readline()
        event, _, self._text = self._text.partition(b"\n\n")
        fields = (line.partition(": ") for line in event.decode().splitlines() if line[:1] != ":")
        return {name: value for name, _, value in fields}

    def event(self) -> tuple[dict[str, str], Any]:
        """The next event that is no comment, and its data."""
        while not (fields := self.next()):
            pass
        return fields, json.loads(fields["data"])


@contextmanager
def following(web: Web, query: str = "") -> Iterator[Events]:
    with socket.create_connection(web.address, timeout=30) as sock:
        sock.sendall(f"GET /v1/advisories{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        try:
            yield Events(sock)
        finally:
            sock.shutdown(socket.SHUT_RDWR)


def test_advisories_are_events(stream: Stream) -> None:
    subject = f"ADVISORY.CONSUMER.CREATED.{stream.name}.*"
    with following(stream.web, f"?filter={subject}") as events:
        assert events.status.startswith(b"HTTP/1.1 200")
        assert b"content-type: text/event-stream" in events.head
        assert events.next() == {}  # from here on nothing is missed
        stream.consumer("C")
        fields, data = events.event()

    assert fields["event"] == "consumer_action"
    assert data["subject"] == f"$JS.EVENT.ADVISORY.CONSUMER.CREATED.{stream.name}.C"
    assert data["event"]["consumer"] == "C"
    assert fields["id"] == data["event"]["id"]


def test_a_bad_filter_is_refused(web: Web) -> None:
    assert web.get("/v1/advisories?filter=a..b").status == 400
    assert web.get("/v1/advisories?filter=a.%3E.b").status == 400


def test_a_head_request_ends(web: Web) -> None:
    answer = web.send("HEAD", "/v1/advisories")

    assert (answer.status, answer.body) == (200, b"")


def test_a_caller_that_goes_leaves_no_subscription(web: Web, wire: Wire) -> None:
    subject = "$JS.EVENT.ADVISORY.nobody.asks.for.this"

    def nobody_listens() -> bool:
        try:
            return b" 503" in wire.request(subject, timeout=0.2).headers
        except Silence:
            return False

    with following(web, "?filter=ADVISORY.nobody.asks.for.this") as events:
        assert events.next() == {}
        wire.publish(subject, b'{"type":"a.b.c","id":"1\\nevent: x"}')
        fields, _ = events.event()
        assert fields["event"] == "c"
        assert fields["id"] == ""  # what could end its line is left out

    eventually(nobody_listens)


def test_an_event_that_is_no_json_is_left_out(web: Web, wire: Wire) -> None:
    subject = "$JS.EVENT.ADVISORY.odd"
    with following(web, "?filter=ADVISORY.odd") as events:
        assert events.next() == {}
        wire.publish(subject, b"not json")
        wire.publish(subject, b"[1]")
        fields, data = events.event()

    assert (fields["event"], data["event"]) == ("advisory", [1])
