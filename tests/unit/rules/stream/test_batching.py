"""What is put aside until a batch is complete, and what of it is given up."""

# Subject: batches

from collections.abc import Callable
from typing import Any

import pytest

from core.errors import ApiError
from core.model.account import ServerLimits
from core.rules.stream.batches.open_batches import (
    BatchLimits,
    OpenBatch,
    Quota,
    Staging,
    batch_limits,
    ends_batch,
    quoted,
    without,
)
from core.rules.stream.headers import publish_headers
from core.units import NANOS_PER_SECOND

Take = Callable[..., OpenBatch | None]


class Bench:
    """One stream's open batches; `abandoned` is what was said of those that were given up."""

    def __init__(self, quota: Quota) -> None:
        self.abandoned: list[tuple[bytes, str]] = []
        self.quota = quota
        self.staging = Staging(quota, lambda name, reason: self.abandoned.append((name, reason)))

    def receive(self, name: str, seq: object, ends: str = "", now: int = 0, more: str = "") -> Any:
        lines = [f"Nats-Batch-Id: {name}", f"Nats-Batch-Sequence: {seq}"]
        lines += [f"Nats-Batch-Commit: {ends}"] if ends else []
        lines += [more] if more else []
        block = "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()
        return self.staging.receive(b"s", block, b"payload", publish_headers(block), now)

    def refusal(self, *args: Any, **more: Any) -> int:
        with pytest.raises(ApiError) as caught:
            self.receive(*args, **more)
        return caught.value.err_code


def limited(**limits: int) -> Bench:
    return Bench(Quota(lambda: BatchLimits(**limits)))


def test_a_batch_is_complete_with_its_last_message() -> None:
    bench = limited()

    assert bench.receive("b", 1) is None
    batch = bench.receive("b", 2, ends="1")

    assert batch.columns.subjects == [b"s", b"s"]
    assert bench.quota.batches == bench.quota.nbytes == 0


def test_the_last_message_is_marked_when_the_end_is_none_itself() -> None:
    bench = limited()
    bench.receive("b", 1)

    batch = bench.receive("b", 2, ends="eob")

    assert [block.count(b"Nats-Batch-Commit: 1\r\n") for block in batch.columns.headers] == [1]
    assert bench.quota.nbytes == 0


@pytest.mark.parametrize(
    ("message", "error", "reason"),
    [
        (("b", 3), 10176, "incomplete"),
        (("b", 1), 10176, "incomplete"),
        (("b", 2, "2"), 10200, ""),
        (("b", 2, "", 0, "Nats-Required-Api-Level: 99"), 10185, "unsupported"),
    ],
)
def test_a_batch_in_disorder_is_given_up(message: tuple[Any, ...], error: int, reason: str) -> None:
    bench = limited()
    bench.receive("b", 1)

    assert bench.refusal(*message) == error

    assert bench.abandoned == ([(b"b", reason)] if reason else [])
    assert bench.quota.batches == bench.quota.nbytes == 0
    assert bench.refusal("b", 2) == 10176


def test_a_message_that_names_no_place_leaves_the_batch_alone() -> None:
    bench = limited()
    bench.receive("b", 1)

    assert bench.refusal("b", "two") == 10175
    assert bench.refusal("b" * 65, 1) == 10179

    assert bench.receive("b", 2, ends="1") is not None


def test_batches_are_limited_in_messages() -> None:
    bench = limited(messages=2)
    bench.receive("b", 1)
    bench.receive("b", 2)

    assert bench.refusal("b", 3) == 10199
    assert bench.abandoned == [(b"b", "large")]


def test_batches_are_limited_in_memory_together() -> None:
    bench = limited(nbytes=250)
    bench.receive("b", 1)
    bench.receive("c", 1)

    assert bench.refusal("b", 2, more="Filler: " + "x" * 100) == 10199

    assert bench.abandoned == [(b"b", "large")]
    assert bench.receive("c", 2, ends="1") is not None


def test_open_batches_are_limited_per_stream_and_together() -> None:
    quota = Quota(lambda: BatchLimits(per_stream=2, total=3))
    one, other = Bench(quota), Bench(quota)
    one.receive("a", 1)
    one.receive("b", 1)
    other.receive("a", 1)

    assert one.refusal("c", 1) == 10210
    assert other.refusal("b", 1) == 10210

    one.staging.clear()
    assert other.receive("b", 1) is None


def test_time_begins_anew_with_every_message() -> None:
    bench = limited(timeout=10 * NANOS_PER_SECOND)
    bench.receive("a", 1)
    bench.receive("b", 1, now=1 * NANOS_PER_SECOND)
    bench.receive("a", 2, now=5 * NANOS_PER_SECOND)

    bench.staging.expire(11 * NANOS_PER_SECOND)

    assert bench.abandoned == [(b"b", "timeout")]
    assert bench.staging.deadline() == 15 * NANOS_PER_SECOND


def test_limits_that_are_not_set_are_the_usual_ones() -> None:
    assert batch_limits(ServerLimits()) == BatchLimits()
    assert batch_limits(ServerLimits(batch_messages=0, batch_timeout=5)) == BatchLimits(timeout=5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b'q"<\\', b'q\\"<\\\\'),
        ("é 😀".encode(), "é 😀".encode()),
        (b"\x01\x7f\t", b"\\x01\\x7f\\t"),
        ("\u2028".encode(), b"\\u2028"),
        (b"a\xffb", b"a\\xffb"),
    ],
)
def test_ids_are_quoted_as_go_does(name: bytes, text: bytes) -> None:
    assert quoted(name) == text


def test_both_headers_end_a_batch() -> None:
    head = b"NATS/1.0\r\n"

    assert ends_batch(head + b"Nats-Batch-Id: b\r\nNats-Batch-Commit: 1\r\n\r\n")
    assert not ends_batch(head + b"Nats-Batch-Id: \r\nNats-Batch-Commit: 1\r\n\r\n")
    assert not ends_batch(head + b"Nats-Batch-Commit: 1\r\n\r\n")
    assert not ends_batch(head + b"Text: Nats-Batch-Id: b Nats-Batch-Commit: 1\r\n\r\n")


def test_lines_are_taken_out_of_a_header_block() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n"

    assert without(block, b"A:") == b"NATS/1.0\r\nB: 2\r\n\r\n"
    assert without(b"NATS/1.0\r\nA: 1\r\n\r\n", b"A:") == b""
