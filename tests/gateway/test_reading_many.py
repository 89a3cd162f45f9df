"""Reading many messages at once, and the account."""

# Subject: HTTP

from typing import Any

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Answer, Web


def read(stream: Stream, **request: object) -> Answer:
    return stream.web.json("POST", f"{stream.path}/messages:read", request)


def read_lines(stream: Stream, **request: object) -> list[Any]:
    path = f"{stream.path}/messages:read"
    return stream.web.json("POST", path, request, Accept="application/x-ndjson").lines()


def seqs(answer: Answer) -> list[int]:
    return [message["seq"] for message in answer.json()["messages"]]


@pytest.fixture
def filled(stream: Stream) -> Stream:
    for number, rest in enumerate(("a", "b", "a", "c", "b"), 1):
        stream.publish(rest, b'{"n":%d}' % number, Nats_H_X="y")
    return stream


def test_messages_are_read_in_pages(filled: Stream) -> None:
    first = read(filled, batch=2)
    end = first.json()["end"]
    rest = read(filled, seq=end["last_seq"] + 1)

    assert (seqs(first), end) == ([1, 2], {"count": 2, "pending": 3, "last_seq": 2})
    message = first.json()["messages"][0]
    assert (message["data"], message["headers"], message["pending"]) == ({"n": 1}, {"X": ["y"]}, 4)
    assert (seqs(rest), rest.json()["end"]["pending"]) == ([3, 4, 5], 0)


def test_messages_of_subjects_and_times(filled: Stream) -> None:
    times = [message["time"] for message in read(filled).json()["messages"]]

    assert seqs(read(filled, next_by=filled.subject("b"))) == [2, 5]
    assert seqs(read(filled, start_time=times[2])) == [3, 4, 5]
    assert seqs(read(filled, start_time=times[2], next_by=filled.subject("a"))) == [3]


def test_the_last_of_each_subject_as_of_an_instant(filled: Stream) -> None:
    times = [message["time"] for message in read(filled).json()["messages"]]
    everything = [filled.subject(">")]

    now = read(filled, multi_last=everything)
    assert (seqs(now), now.json()["end"]["up_to_seq"]) == ([3, 4, 5], 5)
    assert seqs(read(filled, multi_last=[filled.subject("a"), filled.subject("b")])) == [3, 5]
    assert seqs(read(filled, multi_last=everything, up_to_seq=2)) == [1, 2]
    assert seqs(read(filled, multi_last=everything, up_to_time=times[2])) == [1, 2]
    page = read(filled, multi_last=everything, up_to_seq=4, batch=1)
    assert (seqs(page), page.json()["end"]["pending"]) == ([2], 2)
    rest = read(filled, multi_last=everything, up_to_seq=4, seq=3)
    assert seqs(rest) == [3, 4]


def test_lines_end_with_the_end(filled: Stream) -> None:
    lines = read_lines(filled, batch=2)

    assert [line.get("seq") for line in lines] == [1, 2, None]
    assert lines[-1] == {"end": {"count": 2, "pending": 3, "last_seq": 2}}


def test_nothing_is_an_empty_list(filled: Stream) -> None:
    none = read(filled, next_by="other")
    lines = read_lines(filled, multi_last=["other"])

    assert (none.status, none.json()) == (200, {"messages": [], "end": {"count": 0, "pending": 0}})
    assert lines == [{"end": {"count": 0, "pending": 0}}]


@pytest.mark.parametrize(
    "request_",
    [
        {"seq": 1, "start_time": "2026-01-01T00:00:00Z"},
        {"multi_last": ["a"], "next_by": "b"},
        {"up_to_seq": 1},
        {"multi_last": ["a"], "up_to_seq": 1, "up_to_time": "2026-01-01T00:00:00Z"},
        {"multi_last": []},
        {"multi_last": ["a b"]},
        {"start_time": "yesterday"},
        {"batch": 1001},
        {"batch": 0},
        {"what": 1},
    ],
)
def test_unreadable_input_is_refused(stream: Stream, request_: dict[str, object]) -> None:
    assert read(stream, **request_).status == 400


def test_a_stream_without_direct_get_is_refused_by_name(stream: Stream) -> None:
    stream.web.json("PATCH", stream.path, {"allow_direct": False})

    without = read(stream)
    nowhere = stream.web.json("POST", "/v1/streams/NO/messages:read", {})

    assert (without.status, without.kind) == (409, "direct-not-allowed")
    assert (nowhere.status, nowhere.json()["err_code"]) == (404, 10059)


def test_the_account_is_shown(stream: Stream, web: Web) -> None:
    account = web.get("/v1/account")

    assert (account.status, account.headers["cache-control"]) == (200, "no-store")
    assert account.json()["streams"] >= 1
    assert "max_streams" in account.json()["limits"]


def test_the_limit_of_message_size_is_in_the_refusal(stream: Stream, web: Web) -> None:
    most = web.get("/v1/session").json()["max_payload"]

    assert web.publish(f"{stream.prefix}.x", b"x" * most).status == 201
    assert web.publish(f"{stream.prefix}.x", b"x" * (most + 1)).status == 413
