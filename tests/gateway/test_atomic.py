"""An atomic batch as one call."""

# Subject: HTTP

import json
from typing import Any

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Answer


@pytest.fixture
def bank(stream: Stream) -> Stream:
    answer = stream.web.json("PATCH", stream.path, {"allow_atomic": True})
    assert answer.status == 200, answer
    return stream


def send(stream: Stream, messages: list[dict[str, Any]]) -> Answer:
    for message in messages:
        message.setdefault("subject", stream.subject("a"))
    body = b"\n".join(json.dumps(message).encode() for message in messages)
    headers = {"Content-Type": "application/x-ndjson"}
    return stream.web.send("POST", "/v1/publish:atomic", body, headers)


def stored(stream: Stream) -> int:
    return int(stream.web.get(stream.path).json()["state"]["messages"])


def test_all_messages_are_stored_together(bank: Stream) -> None:
    bank.publish("before")
    lines = send(bank, [{"text": "-10", "headers": {"X": "y"}}, {"subject": bank.subject("b")}])
    array = bank.web.json("POST", "/v1/publish:atomic", [{"subject": bank.subject("c")}])

    assert (lines.status, lines.json()) == (201, {"stream": bank.name, "seq": 3, "count": 2})
    assert lines.headers["location"] == f"{bank.path}/messages/3"
    assert array.json() == {"stream": bank.name, "seq": 4, "count": 1}
    first = bank.web.get(f"{bank.path}/messages/2")
    assert (first.body, first.headers["nats-h-x"]) == (b"-10", "y")


def test_one_that_is_refused_refuses_all(bank: Stream) -> None:
    bank.publish("taken")
    expectation = {"last_subject_seq": 9}

    answer = send(bank, [{}, {"subject": bank.subject("taken"), "expect": expectation}, {}])

    assert (answer.status, answer.json()["err_code"]) == (412, 10071)
    assert stored(bank) == 1


def test_a_bad_line_is_named_and_nothing_is_sent(bank: Stream) -> None:
    bad = send(bank, [{}, {"subject": "a.*"}, {"subject": "no.*"}])
    empty = send(bank, [])
    header = send(bank, [{"headers": {"Nats-Batch-Id": "mine"}}])

    assert (bad.status, bad.kind, bad.json()["line"]) == (400, "bad-subject", 2)
    assert (empty.status, empty.kind) == (400, "empty-batch")
    assert (header.status, header.kind) == (400, "header-not-allowed")
    assert stored(bank) == 0


def test_a_batch_lives_in_one_stream_that_allows_it(bank: Stream) -> None:
    nowhere = send(bank, [{}, {"subject": f"{bank.prefix}-nowhere"}])
    bank.web.json("PATCH", bank.path, {"allow_atomic": False})
    forbidden = send(bank, [{}, {}])

    assert (nowhere.status, nowhere.kind) == (404, "no-stream")
    assert (forbidden.status, forbidden.json()["err_code"]) == (400, 10174)
    assert stored(bank) == 0


def test_more_than_the_server_takes_is_refused(bank: Stream) -> None:
    answer = send(bank, [{} for _ in range(1001)])

    assert (answer.status, answer.json()["err_code"]) == (400, 10199)
    assert stored(bank) == 0


def test_other_types_are_refused(bank: Stream) -> None:
    answer = bank.web.send("POST", "/v1/publish:atomic", b"x", {"Content-Type": "text/plain"})

    assert answer.status == 415
