"""HTTP headers to message headers and back."""

# Subject: HTTP

import pytest
from starlette.datastructures import Headers

from gateway.formats.message_headers import (
    block,
    canonical,
    message_headers,
    preconditions,
    response_headers,
)
from gateway.http.problems import Problem
from gateway.settings import Settings

SETTINGS = Settings(ack_key=b"k" * 32)


def test_only_headers_of_messages_are_taken() -> None:
    raw = [
        (b"host", b"x"),
        (b"cookie", b"secret"),
        (b"nats-h-x-order", b"7"),
        (b"nats-h-x-order", b"8"),
        (b"nats-ttl", b"5s"),
        (b"nats-expected-last-subject-sequence-subject", b"a"),
    ]

    assert message_headers(raw, SETTINGS) == [
        (b"X-Order", b"7"),
        (b"X-Order", b"8"),
        (b"Nats-TTL", b"5s"),
        (b"Nats-Expected-Last-Subject-Sequence-Subject", b"a"),
    ]


@pytest.mark.parametrize(
    "name", [b"nats-trace-dest", b"nats-request-info", b"nats-batch-id", b"nats-stream-source"]
)
def test_headers_that_steer_the_server_are_refused(name: bytes) -> None:
    with pytest.raises(Problem) as caught:
        message_headers([(name, b"x")], SETTINGS)
    assert caught.value.status == 400


def test_nothing_of_a_message_becomes_a_header_with_a_meaning() -> None:
    dangerous = [b"Set-Cookie", b"location", b"Content-Length", b"Access-Control-Allow-Origin"]
    dangerous += [b"Transfer-Encoding", b"Js-Reason", b"ETag", b"Nats-H-X", b"nats-h-y"]

    shown, media_type = response_headers([(name, b"x") for name in dangerous])

    assert all(name.lower().startswith(b"nats-h-") for name, _ in shown)
    assert media_type == b"application/octet-stream"


def test_headers_that_http_cannot_carry_are_counted() -> None:
    shown, _ = response_headers([(b"a b", b"1"), (b"A", b"x\ny"), (b"B", b"ok")])

    assert shown == [(b"Nats-H-B", b"ok"), (b"Js-Headers-Omitted", b"2")]


@pytest.mark.parametrize(
    ("given", "served"),
    [
        (b"application/json", b"application/json"),
        (b"Text/Plain; charset=UTF-8", b"text/plain; charset=utf-8"),
        (b"application/vnd.api+json", b"application/vnd.api+json"),
        (b"text/html", b"application/octet-stream"),
        (b"image/svg+xml", b"application/octet-stream"),
        (b"application/json, text/html", b"application/octet-stream"),
    ],
)
def test_only_inert_types_are_served(given: bytes, served: bytes) -> None:
    assert response_headers([(b"Content-Type", given)])[1] == served


def test_preconditions_become_expectations() -> None:
    def read(**headers: str) -> list[tuple[bytes, bytes]]:
        return preconditions(Headers({k.replace("_", "-"): v for k, v in headers.items()}))

    assert read(If_Match='"7"') == [(b"Nats-Expected-Last-Subject-Sequence", b"7")]
    assert read(If_None_Match="*") == [(b"Nats-Expected-Last-Subject-Sequence", b"0")]
    assert read(If_Match='"7"', Js_Expect="stream") == [(b"Nats-Expected-Last-Sequence", b"7")]
    assert read(Idempotency_Key='"a b"') == [(b"Nats-Msg-Id", b"a b")]
    assert read() == []


def test_names_and_blocks() -> None:
    assert canonical(b"x-a--b") == b"X-A--B"
    assert block([]) == b""
    assert block([(b"A", b"1"), (b"B", b"")]) == b"NATS/1.0\r\nA: 1\r\nB: \r\n\r\n"
