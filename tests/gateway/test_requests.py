"""Request and reply over HTTP: whoever serves a subject on NATS answers."""

# Subject: HTTP

import pytest

from tests.gateway.web import Answer, Web
from tests.support.wire import Wire


def ask(web: Web, subject: str, query: str = "", body: bytes = b"?", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.send("POST", f"/v1/subjects/{subject}:request{query}", body, named)


def serve(wire: Wire, subject: str) -> None:
    wire.send(f"SUB {subject} s\r\n".encode())
    assert wire.flush() == []


def answer(wire: Wire, *replies: bytes, headers: bytes = b"") -> bytes:
    """Answer one request with these; return what was asked."""
    frame = wire.frame()
    for reply in replies:
        wire.publish(frame.reply.decode(), reply, headers=headers)
    return frame.payload


def test_the_reply_is_the_answer(web: Web, wire: Wire) -> None:
    serve(wire, "ask.one")
    waiting = web.later(lambda: ask(web, "ask.one", body=b"2+2", Nats_H_Unit="apples"))
    frame = wire.frame()
    block = (
        b"NATS/1.0\r\nContent-Type: application/json\r\nX-By: me\r\nNats-Service-Error: no\r\n\r\n"
    )
    wire.publish(frame.reply.decode(), b"4", headers=block)
    got = waiting()

    assert (frame.payload, b"Unit: apples" in frame.headers) == (b"2+2", True)
    assert (got.status, got.body) == (200, b"4")
    assert got.headers["content-type"] == "application/json"
    assert (got.headers["nats-h-x-by"], got.headers["nats-service-error"]) == ("me", "no")


def test_no_responders_are_reported_at_once(web: Web) -> None:
    one, many = ask(web, "ask.nobody"), ask(web, "ask.nobody", "?replies=3")

    assert (one.status, one.kind, one.headers["retry-after"]) == (503, "no-responders", "1")
    assert (many.status, many.kind) == (503, "no-responders")


def test_silence_ends_at_the_timeout(web: Web, wire: Wire) -> None:
    serve(wire, "ask.silent")

    one, many = (ask(web, "ask.silent", f"?timeout=50ms{more}") for more in ("", "&replies=2"))

    assert (one.status, one.kind, many.status, many.kind) == (504, "no-answer", 504, "no-answer")


def test_many_replies_are_lines(web: Web, wire: Wire) -> None:
    serve(wire, "ask.many")
    waiting = web.later(lambda: ask(web, "ask.many", "?replies=3&timeout=30s"))
    answer(wire, b'{"n":1}', b"two", b"\xff", b"unwanted")
    got = waiting()

    assert got.headers["content-type"].startswith("application/x-ndjson")
    assert got.lines() == [{"data": {"n": 1}}, {"text": "two"}, {"data_base64": "/w=="}]


@pytest.mark.parametrize("query", ["?replies=9&stall=50ms&timeout=30s", "?replies=9&timeout=500ms"])
def test_replies_end_when_no_more_come(web: Web, wire: Wire, query: str) -> None:
    serve(wire, "ask.some")
    waiting = web.later(lambda: ask(web, "ask.some", query))
    answer(wire, b"1", b"2", headers=b"NATS/1.0\r\nX: y\r\n\r\n")

    assert waiting().lines() == [{"text": text, "headers": {"X": ["y"]}} for text in ("1", "2")]


def test_an_empty_reply_can_be_the_end(web: Web, wire: Wire) -> None:
    serve(wire, "ask.until")
    waiting = web.later(lambda: ask(web, "ask.until", "?replies=9&until_empty=true&timeout=30s"))
    answer(wire, b"1", b"", b"2")

    assert waiting().lines() == [{"text": "1"}]


@pytest.mark.parametrize(
    ("subject", "query", "status"),
    [
        ("a.*", "", 400),
        ("$JS.API.INFO", "", 403),
        ("ask", "?timeout=61s", 400),
        ("ask", "?timeout=soon", 400),
        ("ask", "?replies=0", 400),
        ("ask", "?replies=10001", 400),
        ("ask", "?stall=1s", 400),
    ],
)
def test_invalid_requests_are_refused(web: Web, subject: str, query: str, status: int) -> None:
    assert ask(web, subject, query).status == status
