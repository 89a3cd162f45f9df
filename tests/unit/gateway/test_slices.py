"""Bodies of very many lines: how much of one is read between two loop ticks."""

# Subject: HTTP

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.client import MessageColumns
from core.runtime import step_queue
from gateway.formats.validation import json_object
from gateway.http.problems import Problem
from gateway.messages import atomic_batch, publish_handlers
from gateway.messages.batch_lines import SLICE_LINES, BatchPart, LineDecoder
from gateway.messages.batch_publish import PublishStream
from gateway.requests.call import Call
from gateway.settings import Settings

SETTINGS = Settings(ack_key=b"k" * 32)
COUNT = 5 * SLICE_LINES + 1
BAD = b'{"x":1}'


class Caller:
    """Stands for a call with a body of one piece."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.scope = {"path": "/"}
        self.params: dict[str, str] = {}
        js = SimpleNamespace(start_many=self._refuse)
        client = SimpleNamespace(info=SimpleNamespace(max_payload=1 << 20))
        self.gateway = SimpleNamespace(settings=SETTINGS, client=client, js=js)

    def _refuse(self, _: MessageColumns) -> None:
        raise AssertionError("no line is good")

    async def chunk(self, _: float) -> tuple[bytes, bool]:
        return self._body, False

    async def body(self, _: int) -> bytes:
        return self._body

    async def wait_for_tick(self, _: int) -> None:
        """Return at once."""


async def _stream(call: Caller) -> int:
    sent: list[bytes] = []

    async def send(event: Any) -> None:
        sent.append(event.get("body", b""))

    await PublishStream(cast(Call, call), brief=False)({}, cast(Any, None), send)
    return b"".join(sent).count(b"\n")


async def _atomic(call: Caller) -> int:
    return (await atomic_batch.read_lines(cast(Call, call), await call.body(0))).size


async def _array(call: Caller) -> int:
    answer = await publish_handlers._array(cast(Call, call))
    return bytes(answer.body).count(b'"bad-json"') or bytes(answer.body).count(b":bad-json")


WAYS: dict[str, tuple[Callable[[Caller], Any], bytes]] = {
    "stream": (_stream, (BAD + b"\n") * COUNT),
    "atomic": (_atomic, (BAD + b"\n") * COUNT),
    "array": (_array, b"[" + b",".join([BAD] * COUNT) + b"]"),
}


@pytest.mark.parametrize("name", WAYS)
def test_lines_are_read_and_answered_in_slices(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Between two ticks of the loop no more than a slice is read, and no more answered."""
    way, body = WAYS[name]
    read = answered = 0
    steps: list[tuple[int, int]] = []
    refuse, results = BatchPart.refuse, BatchPart.results

    def count_refused(part: BatchPart, problem: Problem) -> None:
        nonlocal read
        read += 1
        refuse(part, problem)

    def count_results(part: BatchPart, counter: Any) -> list[bytes]:
        nonlocal answered
        answered += part.size
        return results(part, counter)

    async def run() -> int:
        nonlocal read, answered
        task = asyncio.create_task(way(Caller(body)))
        while not task.done():
            await asyncio.sleep(0)
            steps.append((read, answered))
            read = answered = 0
        return int(await task)

    monkeypatch.setattr(step_queue, "TICK_NS", 0)
    monkeypatch.setattr(BatchPart, "refuse", count_refused)
    monkeypatch.setattr(BatchPart, "results", count_results)
    assert asyncio.run(run()) == COUNT
    assert max(read for read, _ in steps) <= SLICE_LINES
    assert max(answered for _, answered in steps) <= SLICE_LINES


def test_an_array_of_more_messages_than_may_be_unacknowledged_is_refused() -> None:
    body = b"[" + b",".join([BAD] * (SETTINGS.batch_unacked_max + 1)) + b"]"
    with pytest.raises(Problem) as refused:
        asyncio.run(_array(Caller(body)))

    assert (refused.value.status, refused.value.kind) == (413, "body-too-large")


def test_blank_lines_of_a_batch_are_no_slices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read = LineDecoder.decode

    def count(lines: LineDecoder, some: list[bytes]) -> BatchPart:
        calls.append(len(some))
        return read(lines, some)

    monkeypatch.setattr(LineDecoder, "decode", count)
    assert asyncio.run(_atomic(Caller(b"\n" * 1_000_000 + BAD))) == 1
    assert calls == [1]


@pytest.mark.parametrize("value", ["{{{}}}".format(",".join(f'"z{n}":1' for n in range(32_768))),
                                   '{{"a":[{}]}}'.format(",".join(["[ ]"] * 32_768))])  # fmt: skip
def test_json_of_more_values_than_the_server_reads_is_refused(value: str) -> None:
    with pytest.raises(Problem) as refused:
        json_object(value.encode())

    assert (refused.value.status, refused.value.kind) == (413, "body-too-large")


def test_commas_and_brackets_in_strings_are_no_values() -> None:
    text = '[,{"' * 20_000
    body = '{{"a":"{}"}}'.format(text.replace('"', '\\"'))

    assert json_object(body.encode()) == {"a": text}
