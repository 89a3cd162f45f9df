"""Publishing many messages at once."""

# Subject: HTTP

import json
import socket
from base64 import b64encode

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Web


def line(stream: Stream, rest: str, **members: object) -> bytes:
    return json.dumps({"subject": stream.subject(rest)} | members).encode() + b"\n"


def kind(result: dict[str, dict[str, str]]) -> str:
    return result["error"]["type"].rpartition(":")[2]


def test_each_line_has_its_result_in_order(stream: Stream) -> None:
    body = line(stream, "a", data={"n": 1}) + line(stream, "b", text="é") + line(stream, "c")

    results = stream.web.lines(body).lines()

    assert results == [{"stream": stream.name, "seq": n} for n in (1, 2, 3)]


def test_payloads_are_stored_as_they_were_given(stream: Stream) -> None:
    encoded = b64encode(b"\x00\xff").decode()
    odd = b'{"subject":"%s","data":{"b": 1.50, "a":10000000000000000000001}}\n'
    body = line(stream, "a", text='"é"') + line(stream, "b", data_base64=encoded)

    stream.web.lines(body + odd % stream.subject("c").encode())

    payloads = [stream.web.get(f"{stream.path}/messages/{n}").body for n in (1, 2, 3)]
    assert payloads == ['"é"'.encode(), b"\x00\xff", b'{"b": 1.50, "a":10000000000000000000001}']


def test_a_bad_line_is_an_error_line_and_stops_nothing(stream: Stream) -> None:
    bad = [
        (b"not json\n", "bad-json"),
        (b"[]\n", "bad-json"),
        (b"{}\n", "bad-json"),
        (b'{"subject":"a b"}\n', "bad-subject"),
        (b'{"subject":"a\\r\\nPUB x 0"}\n', "bad-subject"),
        (b'{"subject":"a.*"}\n', "bad-subject"),
        (b'{"subject":"$JS.API.INFO"}\n', "reserved-subject"),
        (b'{"subject":"a","text":"1","data":2}\n', "bad-line"),
        (b'{"subject":"a","data_base64":"%"}\n', "bad-line"),
        (b'{"subject":"a","text":"\xff"}\n', "bad-json"),
        (b'{"subject":"a","data":"\xff"}\n', "bad-json"),
        (b'{"subject":"a","unknown":1}\n', "bad-json"),
        (b'{"subject":"a","data":' + b"[" * 9000 + b"]" * 9000 + b"}\n", "bad-json"),
        (b'{"subject":"a","headers":{"A":"b\\r\\nC: d"}}\n', "bad-header"),
        (b'{"subject":"a","headers":{"A\\n":"b"}}\n', "bad-header"),
        (b'{"subject":"a","headers":{"nats-trace-dest":"b"}}\n', "header-not-allowed"),
        (b'{"subject":"a","msg_id":"a\\nb"}\n', "bad-header"),
        (b'{"subject":"a","msg_id":""}\n', "bad-header"),
        (b'{"subject":"a","msg_id":"1","headers":{"nats-msg-id":"2"}}\n', "bad-header"),
        (b'{"subject":"a","expect":{"last_seq":-1}}\n', "bad-json"),
        (b'{"subject":"nobody.has.this"}\n', "no-stream"),
    ]
    good = line(stream, "a")

    results = stream.web.lines(b"".join(item + good for item, _ in bad)).lines()

    assert [kind(result) for result in results[::2]] == [name for _, name in bad]
    assert [result["seq"] for result in results[1::2]] == list(range(1, len(bad) + 1))


def test_expectations_and_message_ids_hold_for_each_line(stream: Stream) -> None:
    body = (
        line(stream, "a", msg_id="1")
        + line(stream, "a", msg_id="1")
        + line(stream, "a", expect={"last_subject_seq": 9})
        + line(stream, "a", expect={"last_seq": 1}, headers={"X-A": ["1", "2"], "x-b": "3"})
    )

    results = stream.web.lines(body).lines()

    assert results[1]["duplicate"] is True
    assert results[2]["error"]["status"] == 412
    assert results[3] == {"stream": stream.name, "seq": 2}
    found = stream.web.get(f"{stream.path}/messages/2", Accept="application/json").json()
    assert found["headers"]["X-A"] == ["1", "2"]
    assert found["headers"]["x-b"] == ["3"]


@pytest.mark.parametrize("array", [False, True])
def test_a_repeated_id_is_a_duplicate_whatever_its_condition(stream: Stream, array: bool) -> None:
    """Each made its own condition untrue when it was stored."""
    first = line(stream, "a", msg_id="1", expect={"last_subject_seq": 0})
    second = line(stream, "b", expect={"last_seq": 1}, headers={"nats-msg-id": "2"})
    other = line(stream, "a", msg_id="3", expect={"last_subject_seq": 0})
    body = first + first + second + line(stream, "c") + second + other

    if array:
        items = [json.loads(item) for item in body.splitlines()]
        results = stream.web.json("POST", "/v1/publish", items).json()
    else:
        results = stream.web.lines(body).lines()

    assert [(result.get("seq"), result.get("duplicate", False)) for result in results[:5]] == [
        (1, False),
        (1, True),
        (2, False),
        (3, False),
        (2, True),
    ]
    assert kind(results[5]) == "stream-wrong-last-sequence"
    assert stream.web.get(stream.path).json()["state"]["messages"] == 3


def test_a_last_line_without_a_line_break_counts_and_blank_ones_do_not(stream: Stream) -> None:
    body = b"\n" + line(stream, "a") + b"\r\n \n" + line(stream, "b").rstrip(b"\n")

    assert len(stream.web.lines(body).lines()) == 2


def test_a_line_over_the_limit_is_refused_and_skipped(stream: Stream) -> None:
    body = line(stream, "a", text="x" * 1_200_000) + line(stream, "b")

    results = stream.web.lines(body).lines()

    assert (kind(results[0]), results[1]["seq"]) == ("body-too-large", 1)
    assert len(results) == 2


def test_a_minimal_answer_holds_errors_and_counts(stream: Stream) -> None:
    body = line(stream, "a", msg_id="1") * 2 + b"bad\n" + line(stream, "b")

    results = stream.web.lines(body, Prefer="return=minimal").lines()

    assert (results[0]["line"], kind(results[0])) == (3, "bad-json")
    assert results[1:] == [{"published": 3, "duplicates": 1, "failed": 1}]


def test_an_empty_body_has_no_results(web: Web) -> None:
    answer = web.lines(b"")

    assert (answer.status, answer.body) == (200, b"")


def test_results_come_while_lines_are_still_sent(stream: Stream) -> None:
    head = b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection(stream.web.address, timeout=30) as sock:
        sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        reader = sock.makefile("rb")
        for number in (1, 2):
            item = line(stream, "a")
            sock.sendall(b"%x\r\n%s\r\n" % (len(item), item))
            received = b""
            while not received.startswith(b"{"):
                received = reader.readline()
                assert received, "closed"
            assert json.loads(received)["seq"] == number
        sock.sendall(b"0\r\n\r\n")


def test_many_lines_keep_their_order(stream: Stream) -> None:
    body = b"".join(line(stream, "a", data=n) for n in range(5000))

    results = stream.web.lines(body).lines()

    assert [result["seq"] for result in results] == list(range(1, 5001))
    assert stream.web.get(f"{stream.path}/messages/4321").body == b"4320"


def test_an_array_is_answered_with_an_array(stream: Stream) -> None:
    items = [{"subject": stream.subject("a"), "data": 1}, {"subject": "a b"}, 5]

    results = stream.web.json("POST", "/v1/publish", items).json()

    assert results[0] == {"stream": stream.name, "seq": 1}
    assert [kind(result) for result in results[1:]] == ["bad-subject", "bad-json"]


def test_other_media_types_are_refused(web: Web) -> None:
    answer = web.send("POST", "/v1/publish", b"a=b", {"Content-Type": "text/plain"})

    assert (answer.status, answer.kind) == (415, "unsupported-media-type")


@pytest.mark.parametrize("end", [b"\n", b" \r\n", b"\n\n"])
def test_a_line_is_one_message(stream: Stream, end: bytes) -> None:
    """Two messages in a line, or a half, are errors: whatever the lines beside it hold."""
    a, b, c = (line(stream, rest).strip() for rest in "abc")
    half = a.index(b":") + 1

    results = stream.web.lines(end.join((a, b + c, a[:half], a[half:], b, c))).lines()

    assert ["seq" in result for result in results] == [True, False, False, False, True, True]


def test_a_message_is_too_large_with_its_headers(stream: Stream) -> None:
    """It fits into a line, and its headers into theirs, but not both into a message."""
    expect = {"last_seq": 0, "last_subject_seq": 0, "last_msg_id": "a"}
    room = 1024 * 1024 - len(line(stream, "a", text="", expect=expect).rstrip(b"\n"))
    large = line(stream, "a", text="x" * room, expect=expect)

    results = stream.web.lines(large + line(stream, "b")).lines()

    assert (kind(results[0]), results[1].get("seq")) == ("body-too-large", 1)
