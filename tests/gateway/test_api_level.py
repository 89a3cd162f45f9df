"""`Nats-Required-Api-Level`: a request that needs more than the server has is refused."""

# Subject: API, HTTP

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.sockets import Socket
from tests.gateway.web import Answer
from tests.support.wire import Wire

LEVEL = "Nats-Required-Api-Level"
JSON = {"Content-Type": "application/json"}


def ask(stream: Stream, route: str, level: str) -> Answer:
    """Send one request; those that write write into the stream."""
    method, path, body = {
        "publish": ("POST", f"/v1/subjects/{stream.subject('a')}", b"x"),
        "request": ("POST", f"/v1/subjects/{stream.subject('a')}:request?timeout=1s", b"x"),
        "batch": ("POST", "/v1/publish", b'[{"subject": "%b", "text": "x"}]'),
        "atomic": ("POST", "/v1/publish:atomic", b'[{"subject": "%b", "text": "x"}]'),
        "create": ("PUT", "/v1/streams/LEVEL", b'{"subjects": ["level"]}'),
        "info": ("GET", stream.path, None),
        "list": ("GET", "/v1/streams", None),
        "read": ("GET", f"{stream.path}/messages?last_by={stream.subject('a')}", None),
        "purge": ("POST", f"{stream.path}:purge", b"{}"),
        "tail": ("GET", f"{stream.path}/tail", None),
        "account": ("GET", "/v1/account", None),
    }[route]
    if body and b"%b" in body:
        body = body % stream.subject("a").encode()
    return stream.web.send(method, path, body, {LEVEL: level} | (JSON if body else {}))


@pytest.mark.parametrize(
    "route",
    ["publish", "request", "batch", "atomic", "create", "info", "list", "read", "purge", "tail"],
)
@pytest.mark.parametrize("level", ["99", "x"])
def test_a_level_that_is_not_there_is_refused(stream: Stream, route: str, level: str) -> None:
    stream.publish("a")

    answer = ask(stream, route, level)

    assert (answer.status, answer.kind) == (412, "required-api-level"), answer
    assert answer.json()["err_code"] == 10185
    assert stream.web.get(stream.path).json()["state"]["last_seq"] == 1
    assert stream.web.get("/v1/streams/LEVEL").status == 404


@pytest.mark.parametrize("route", ["publish", "info", "read", "account"])
def test_a_level_that_is_there_changes_nothing(stream: Stream, route: str) -> None:
    stream.publish("a")
    assert ask(stream, route, "1").status in (200, 201)


def test_a_line_of_a_batch_and_a_frame_may_ask_too(stream: Stream, wire: Wire) -> None:
    lines = [
        {"subject": stream.subject("a"), "text": "x", "headers": {LEVEL: "99"}},
        {"subject": stream.subject("a"), "text": "y", "headers": {LEVEL: "1"}},
    ]
    results = stream.web.json("POST", "/v1/publish", lines).json()
    assert results[0]["error"]["type"].endswith(":required-api-level")
    assert results[1]["seq"] == 1
    with Socket(stream.web.address) as ws:
        subject = stream.subject("a")
        ws.refused("pub", subject=subject, text="x", headers={LEVEL: "99"})
    assert wire.api(f"STREAM.INFO.{stream.name}")["state"]["last_seq"] == 1
