"""CloudEvents in binary mode."""

# Subject: HTTP

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.test_consuming import fetch
from tests.gateway.web import Answer

EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "7",
    "ce-source": "/shop/checkout",
    "ce-type": "com.example.order",
}


def send(stream: Stream, **more: str) -> Answer:
    headers = EVENT | {"Content-Type": "application/json"} | more
    path = f"/v1/subjects/{stream.subject('a')}"
    return stream.web.send("POST", path, b"{}", {k: v for k, v in headers.items() if v})


def test_an_event_comes_back_as_it_was_sent(stream: Stream) -> None:
    sent = {"ce-subject": "Euro%20%E2%82%AC", "ce-time": "2026-01-01T00:00:00Z", "ce-ext1": "x"}
    answer = send(stream, **sent)
    assert answer.status == 201, answer

    read = stream.web.get(f"{stream.path}/messages/1")
    (fetched,) = fetch(stream, stream.consumer("A"))
    raw = stream.web.json("POST", stream.consumer("B") + ":fetch", {"raw": True})

    for got in (read, raw):
        assert {k: v for k, v in got.headers.items() if k.startswith("ce-")} == EVENT | sent
        assert (got.headers["content-type"], got.body) == ("application/json", b"{}")
        assert "nats-h-ce-id" not in got.headers
    headers = {key: values[0] for key, values in fetched["headers"].items()}
    assert headers["ce-datacontenttype"] == headers["Content-Type"] == "application/json"
    assert headers["ce-subject"] == "Euro%20%E2%82%AC"


def test_values_are_unquoted_and_encoded_once(stream: Stream) -> None:
    send(stream, **{"ce-subject": '"a \\"b\\" %e2%82%ac"'})

    read = stream.web.get(f"{stream.path}/messages/1")

    assert read.headers["ce-subject"] == "a%20%22b%22%20%E2%82%AC"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ce-id", ""),
        ("ce-source", ""),
        ("ce-type", ""),
        ("ce-specversion", ""),
        ("ce-specversion", "0.3"),
        ("ce-source", "not a uri"),
        ("ce-time", "yesterday"),
        ("ce-dataschema", "relative/schema"),
        ("ce-datacontenttype", "text/plain"),
        ("ce-data", "x"),
        ("ce-my-name", "x"),
        ("ce-ext", "%zz"),
        ("ce-ext", "%C0%A0"),
        ("ce-ext", "%00"),
    ],
)
def test_a_malformed_event_is_refused(stream: Stream, header: str, value: str) -> None:
    answer = send(stream, **{header: value})

    assert (answer.status, answer.kind) == (400, "bad-cloud-event")
    assert header in answer.json()["detail"]


def test_a_structured_event_is_its_payload(stream: Stream) -> None:
    assert send(stream, **{"Content-Type": "application/cloudevents+json"}).status == 201

    read = stream.web.get(f"{stream.path}/messages/1")

    assert read.headers["content-type"] == "application/cloudevents+json"
    assert not [name for name in read.headers if "ce-" in name.lower() and "cache" not in name]


def test_events_of_native_clients_are_shown(stream: Stream) -> None:
    items = {**EVENT, "ce-subject": "with blank", "ce-datacontenttype": "text/plain"}
    line = {"subject": stream.subject("a"), "text": "x", "headers": items}
    assert "error" not in stream.web.json("POST", "/v1/publish", [line]).json()[0]
    half = {"subject": stream.subject("a"), "headers": {"ce-id": "1"}}
    assert "error" not in stream.web.json("POST", "/v1/publish", [half]).json()[0]

    read = stream.web.get(f"{stream.path}/messages/1")
    other = stream.web.get(f"{stream.path}/messages/2")

    assert read.headers["ce-subject"] == "with%20blank"
    assert (read.headers["content-type"], read.headers["ce-id"]) == ("text/plain", "7")
    assert (other.headers["nats-h-ce-id"], other.headers.get("ce-id")) == ("1", None)
