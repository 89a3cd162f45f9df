"""Conditions and headers of a publish on writes: applied, or refused; never ignored."""

# Subject: HTTP

import re

import pytest

from gateway.formats.message_headers import PUBLISH_HEADERS
from gateway.requests.operation import Operation
from gateway.requests.write_headers import CONDITIONS
from gateway.routes import ROUTES
from tests.gateway.conftest import Stream
from tests.gateway.web import Web

WRITES = [row for row in ROUTES if row.method != "GET"]
HEADERS = [*CONDITIONS, *(name for name in PUBLISH_HEADERS if name != "Nats-Required-Api-Level")]
_JUDGES_ITSELF = {"publishMessage", "request"}


def ignored(row: Operation) -> list[str]:
    """Which of these headers an operation does not say that it applies."""
    applied = {name.partition("#")[0] for name in row.headers}
    return [name for name in HEADERS if name not in applied]


@pytest.mark.parametrize("row", WRITES, ids=lambda row: row.id)
def test_a_write_refuses_by_name_what_it_does_not_apply(web: Web, row: Operation) -> None:
    path = re.sub(r"\{\w+\}", "x", row.path)
    for name in ignored(row):
        answer = web.send(row.method, path, None, {name: '"1"'})

        assert (answer.status, answer.kind) == (400, "header-not-allowed"), (row.id, name)
        assert name.lower() in answer.json()["detail"].lower()


def test_no_write_but_a_publish_takes_every_header() -> None:
    assert {row.id for row in WRITES if not ignored(row)} == _JUDGES_ITSELF


@pytest.mark.parametrize("name", ["Idempotency-Key", "If-Match"])
def test_a_condition_that_is_there_twice_is_refused(stream: Stream, name: str) -> None:
    path = f"/v1/subjects/{stream.subject('a')}"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n"

    said = stream.web.raw(f'{head}{name}: "0"\r\n{name}: "1"\r\n\r\nx'.encode())

    assert said.startswith(b"HTTP/1.1 400 ")
    assert f"{name}: it occurs twice".encode() in said
    assert stream.web.get(stream.path).json()["state"]["messages"] == 0


def test_a_batch_refuses_conditions_in_headers(stream: Stream) -> None:
    line = b'{"subject": "%b", "text": "x"}\n' % stream.subject("a").encode()

    for path in ("/v1/publish", "/v1/publish:atomic"):
        named = {"Content-Type": "application/x-ndjson", "Nats-Expected-Last-Sequence": "9"}
        answer = stream.web.send("POST", path, line, named)

        assert (answer.status, answer.kind) == (400, "header-not-allowed")
        assert "`expect`" in answer.json()["detail"]
    assert stream.web.get(stream.path).json()["state"]["messages"] == 0


def test_a_message_is_not_deleted_on_a_condition(stream: Stream) -> None:
    seq = stream.publish("a")

    answer = stream.web.send("DELETE", f"{stream.path}/messages/{seq}", None, {"If-Match": '"99"'})

    assert (answer.status, answer.kind) == (400, "header-not-allowed")
    assert stream.web.get(f"{stream.path}/messages/{seq}").status == 200


def test_a_request_applies_the_conditions_of_a_publish(stream: Stream) -> None:
    path = f"/v1/subjects/{stream.subject('a')}:request"

    def asked(**headers: str) -> dict[str, object]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply: dict[str, object] = stream.web.send("POST", path, b"x", named).json()
        return reply

    assert asked(Idempotency_Key='"k"')["seq"] == 1
    assert asked(Idempotency_Key='"k"')["duplicate"] is True
    for condition in ({"If_Match": '"9"'}, {"If_None_Match": "*"}):
        assert "wrong last sequence" in str(asked(**condition)["error"])
    assert asked(If_Match='"1"', Js_Expect="stream")["seq"] == 2
    assert stream.web.send("POST", path, b"x", {"Js-Expect": "junk"}).status == 400


def test_a_blank_beside_a_quote_makes_no_other_key(stream: Stream) -> None:
    assert stream.web.publish(stream.subject("a"), b"1", Idempotency_Key='"k 1"').status == 201
    for key in ('" k 1"', '"k 1 "', '"k 1\t"'):
        answer = stream.web.publish(stream.subject("a"), b"2", Idempotency_Key=key)

        assert (answer.status, answer.kind) == (400, "bad-header"), key
