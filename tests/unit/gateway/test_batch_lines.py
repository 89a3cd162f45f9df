"""Lines of a batch."""

# Subject: HTTP

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.client import ReplyBatch
from gateway.messages import batch_lines
from gateway.messages.batch_lines import BatchPart, LineDecoder, ResultCounter
from gateway.settings import Settings

SETTINGS = Settings(ack_key=b"k" * 32)


def read(*lines: bytes) -> BatchPart:
    return LineDecoder(SETTINGS, 1024).decode(list(lines))


@given(st.lists(st.binary(max_size=80).map(lambda raw: raw.replace(b"\n", b"")), max_size=8))
def test_any_line_is_a_message_or_an_error(lines: list[bytes]) -> None:
    part = read(*lines)

    assert part.size == len(part.batch) + len(part.refused)
    assert part.size == sum(bool(line.strip()) for line in lines)


@given(st.text(max_size=40), st.text(max_size=40))
def test_headers_never_leave_their_line(name: str, value: str) -> None:
    try:
        raw = orjson.dumps({"subject": "a", "headers": {name: value}, "msg_id": value})
    except orjson.JSONEncodeError:
        return
    part = read(raw)

    for block in part.batch.headers:
        assert block.count(b"\r\n") == 4
        assert block.count(b"\r") == block.count(b"\n") == 4


@pytest.mark.parametrize(
    "headers", [{f"A{n}": ["1"] for n in range(20_000)}, {"A": ["1"] * 20_000}]
)
def test_of_too_many_headers_no_more_are_read_than_allowed(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, list[str]]
) -> None:
    made = 0

    def header_value(value: str, _: str) -> bytes:
        nonlocal made
        made += 1
        return value.encode()

    def repeats(_: bytes) -> bool:
        raise AssertionError("members of a line that is refused anyway were looked at")

    monkeypatch.setattr(batch_lines, "_header_value", header_value)
    monkeypatch.setattr(batch_lines, "repeats_a_member", repeats)
    part = read(orjson.dumps({"subject": "a", "headers": headers}))

    assert [(p.status, p.kind) for p in part.refused.values()] == [(431, "headers-too-large")]
    assert made <= 2 * SETTINGS.message_header_count_max  # a run with a bad line is read twice


def test_results_follow_the_lines() -> None:
    part = read(b'{"subject":"a"}', b"bad", b'{"subject":"b"}', b'{"subject":"c"}')
    part.replies = ReplyBatch.__new__(ReplyBatch)
    part.replies.payloads = [
        b'{"stream":"S","seq":1}',
        None,
        b'{"error":{"code":404,"err_code":10059}}',
    ]
    part.replies.statuses = {}
    counter = ResultCounter(brief=False)

    results = part.results(counter)

    assert results[0] == b'{"stream":"S","seq":1}'
    assert [
        b'"status":%d' % status in result
        for status, result in zip((400, 504, 404), results[1:], strict=True)
    ] == [True] * 3
    assert (counter.published, counter.failed) == (1, 3)


def test_a_payload_over_the_limit_is_refused() -> None:
    part = read(b'{"subject":"a","text":"' + b"x" * 1025 + b'"}')

    assert part.refused[0].status == 413


def test_bytes_and_text_that_are_none_are_refused_in_words_of_our_own() -> None:
    part = read(b'{"subject":"a","text":"\\ud800"}', b'{"subject":"a\xff"}', b'{"subject":"a"')

    assert [problem.detail for problem in part.refused.values()] == [
        "half of a surrogate pair, such as \\ud800 alone, is no text",
        "not UTF-8",
        "it ends too early",
    ]
