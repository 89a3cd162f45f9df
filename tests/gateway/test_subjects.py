"""Subjects as NATS has them, over HTTP: written, read, listed, followed and removed."""

# Subject: HTTP

from urllib.parse import quote

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.sockets import Socket, following
from tests.support.wire import Wire

PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ODD = [
    PERSIAN,
    FAMILY,
    "\u200b\ufeff",
    "a\u00a0b\u3000c",
    "a\u2028b\u2029c\u0085d",
    "\u202ea\u2066b",
    "e\u0301.\u00e9",
    "a*b.c>d",
    "a/b%2Fc?d#e+f&g;h",
    '"\\',
    "\x01\x0b\x0c\x1b",
    "a\0b.\0",
    ".".join("t" * 100),
    "x" * 1900,
]
"""The ends of subjects. (What holds DEL is stored by nats-server, and not found again.)"""


def quoted(stream: Stream, odd: str) -> str:
    return quote(stream.subject(odd), safe="")


def test_messages_stored_over_nats_are_read_listed_and_removed(stream: Stream, wire: Wire) -> None:
    subjects = {stream.subject(odd) for odd in ODD}
    for subject in subjects:
        assert "seq" in wire.request(subject, subject.encode()).json(), subject

    web, path = stream.web, stream.path
    listed = web.get(f"{path}/subjects").json()["subjects"]
    assert {line["subject"] for line in listed} == subjects
    for odd in ODD:
        subject, text = stream.subject(odd), quoted(stream, odd)
        last = web.get(f"{path}/messages?last_by={text}")
        following = web.get(f"{path}/messages?next_by={text}")
        assert last.body == following.body == subject.encode(), subject
        many = web.json("POST", f"{path}/messages:read", {"multi_last": [subject]})
        assert [each["subject"] for each in many.json()["messages"]] == [subject]
        some = web.get(f"{path}/subjects?filter={text}").json()["subjects"]
        assert some == [{"subject": subject, "messages": 1}]
        if not any(char < " " for char in odd):
            assert last.headers["nats-subject"].encode("latin-1").decode() == subject
    for odd in ODD:
        answer = web.json("POST", f"{path}:purge", {"filter": stream.subject(odd)})
        assert answer.json() == {"purged": 1}, odd


def test_messages_published_over_http_arrive_over_nats(stream: Stream, wire: Wire) -> None:
    wire.send(b"SUB %b.> odd\r\n" % stream.prefix.encode())
    wire.flush()
    for odd in ODD:
        assert stream.publish(odd, odd.encode()) > 0

        frame = wire.frame()

        assert frame.line.startswith(b"MSG %b odd " % stream.subject(odd).encode())
        assert frame.payload == odd.encode()


@pytest.mark.parametrize("odd", [PERSIAN, FAMILY, "\x0b\x1b", "a\0b", "a\u2028b"])
def test_feeds_follow_such_subjects(stream: Stream, wire: Wire, odd: str) -> None:
    subject = stream.subject(odd)
    wire.request(stream.subject("other"), b"other")
    wire.request(subject, b"one")

    path = f"{stream.path}/tail?from=all&filter={quoted(stream, odd)}"
    with following(stream.web.address, path) as events:
        assert events.next()["event"] == "position"
        assert events.next()["data"]["subject"] == subject
    with Socket(stream.web.address) as ws:
        ws.ask("sub", sid=1, stream=stream.name, filter=subject, **{"from": "all"})
        (message,) = ws.messages(1, 1)
        assert message["subject"] == subject
        assert ws.ask("pub", subject=subject, text="two")["seq"] == 3
        assert ws.ask("get", stream=stream.name, last_by=subject)["message"]["text"] == "two"


@pytest.mark.parametrize("end", ["a b", "a\tb", "a\rb", "a\nb", "a..b", "", ".a", "*", ">"])
def test_invalid_subjects_are_refused(stream: Stream, end: str) -> None:
    answer = stream.web.publish(stream.subject(end), b"x")

    assert (answer.status, answer.kind) == (400, "bad-subject")


def test_streams_and_consumers_of_such_names(stream: Stream, wire: Wire) -> None:
    """Names are as subjects, without dots and slashes."""
    name = f"{stream.name}_{PERSIAN}"
    wire.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"named.{stream.prefix}.>"]})
    config = {"stream_name": name, "config": {"name": FAMILY, "ack_policy": "explicit"}}
    wire.api(f"CONSUMER.CREATE.{name}.{FAMILY}", config)
    path = f"/v1/streams/{quote(name, safe='')}"

    assert stream.web.get(path).json()["config"]["name"] == name
    answer = stream.web.get(f"{path}/consumers/{quote(FAMILY, safe='')}")
    assert answer.json()["name"] == FAMILY
    assert stream.web.delete(path).status == 204


def test_a_feed_of_a_subject_with_a_form_feed_is_refused_by_its_name(stream: Stream) -> None:
    """JetStream has no consumer with such a filter."""
    stream.publish("a\fb")

    text = quoted(stream, "a\fb")
    for path in (f"{stream.path}/tail?filter={text}", f"/v1/tail/{text}"):
        answer = stream.web.get(path)
        assert (answer.status, answer.kind) == (400, "bad-subject"), path
        assert "U+000C" in answer.json()["detail"]
    with Socket(stream.web.address) as ws:
        said = ws.ask("sub", sid=1, stream=stream.name, filter=stream.subject("a\fb"))
        assert said["problem"]["status"] == 400


def test_a_long_subject_that_is_not_ascii_fits_in_a_path(stream: Stream) -> None:
    size = 3900 - len(stream.subject(""))  # nats-server has lines of 4,096 bytes
    subject = "\u05d0" * (size // 2) + "a" * (size % 2)

    assert stream.publish(subject, b"long") > 0
    found = stream.web.get(f"{stream.path}/messages?last_by={quoted(stream, subject)}")
    assert (found.status, found.body) == (200, b"long")
