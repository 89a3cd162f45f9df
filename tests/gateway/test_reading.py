"""Reading messages."""

# Subject: HTTP

import json

import pytest

from tests.gateway.conftest import Stream


def test_a_message_is_found_by_sequence_subject_and_time(stream: Stream) -> None:
    for rest in ("a", "b", "a", "b"):
        stream.publish(rest)
    messages = f"{stream.path}/messages"
    third = stream.web.get(f"{messages}/3", Accept="application/json").json()

    def found(query: str) -> str | None:
        return stream.web.get(f"{messages}?{query}").headers["nats-sequence"]

    assert found(f"last_by={stream.subject('a')}") == "3"
    assert found(f"next_by={stream.subject('b')}&seq=3") == "4"
    assert found(f"next_by={stream.prefix}.*") == "1"
    assert found(f"start_time={third['time']}") == "3"
    # Beyond what 64 bits hold: NATS itself would take these for times in between.
    assert found("start_time=2999-01-01T00:00:00Z") is None
    assert found("start_time=0001-01-01T00:00:00Z") == "1"


def test_reading_works_without_direct_get(stream: Stream) -> None:
    stream.web.json("PATCH", stream.path, {"allow_direct": False})
    stream.publish("a", b"body", Nats_H_A="b")

    answer = stream.web.get(f"{stream.path}/messages/1")

    assert (answer.status, answer.body) == (200, b"body")
    assert answer.headers["nats-h-a"] == "b"
    assert stream.web.get(f"{stream.path}/messages/2").status == 404


def test_an_entity_tag_saves_the_body(stream: Stream) -> None:
    stream.publish("a")
    path = f"{stream.path}/messages/1"
    tag = stream.web.get(path).headers["etag"]

    assert stream.web.get(path, If_None_Match=tag).status == 304
    assert stream.web.get(path, If_None_Match='"9"').status == 200
    assert "immutable" in stream.web.get(path).headers["cache-control"]


def test_the_tag_of_the_last_message_makes_a_safe_update(stream: Stream) -> None:
    stream.publish("k", b"1")
    query = f"{stream.path}/messages?last_by={stream.subject('k')}"
    tag = stream.web.get(query).headers["etag"]

    assert stream.web.publish(stream.subject("k"), b"2", If_Match=tag).status == 201
    assert stream.web.publish(stream.subject("k"), b"3", If_Match=tag).status == 412


@pytest.mark.parametrize(
    ("payload", "member", "value"),
    [
        (b'{"a":1}', "data", {"a": 1}),
        (b"[1,\r\n2]", "data", [1, 2]),
        (b"{broken", "text", "{broken"),
        (b"12", "text", "12"),
        (b"", "text", ""),
        ("é\n".encode(), "text", "é\n"),
        (b"\xff", "data_base64", "/w=="),
        (b'{"a":"\xff"}', "data_base64", "eyJhIjoi/yJ9"),
        (b"[" * 3000 + b"]" * 3000, "text", "[" * 3000 + "]" * 3000),
    ],
)
def test_a_payload_has_its_form_in_json(
    stream: Stream, payload: bytes, member: str, value: object
) -> None:
    stream.publish("a", payload)

    answer = stream.web.get(f"{stream.path}/messages/1", Accept="application/json")

    assert b"\n" not in answer.body
    assert json.loads(answer.body)[member] == value


def test_head_has_the_headers_alone(stream: Stream) -> None:
    stream.publish("a", b"body")

    answer = stream.web.send("HEAD", f"{stream.path}/messages/1")

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["nats-sequence"] == "1"


def test_a_subject_that_http_cannot_carry_is_in_the_json(stream: Stream) -> None:
    odd = stream.subject("\x01\x7f")
    transform = {"src": stream.subject("a"), "dest": odd}
    stream.web.json("PATCH", stream.path, {"subject_transform": transform})
    stream.publish("a", b"body")

    answer = stream.web.get(f"{stream.path}/messages/1")
    document = stream.web.get(f"{stream.path}/messages/1", Accept="application/json")

    assert (answer.status, answer.body) == (200, b"body")
    assert (answer.headers["nats-subject"], answer.headers["js-headers-omitted"]) == (None, "1")
    assert document.json()["subject"] == odd
