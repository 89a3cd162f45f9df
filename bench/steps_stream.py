"""Microseconds per message in the stream's state machine: decide and apply, without I/O.

    python -m bench.steps_stream [--memory]

The results are medians of several runs with batches of 1000 messages of 128 bytes, in processor
time of the thread. `--memory` instead fills an index with a million subjects and the deduplication
window with five million ids, and prints the memory of each.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from core.model.stream import Discard, StreamConfig
from core.protocol.messages import MessageColumns
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plans.planner import decide
from core.rules.stream.state.dedup import DedupWindow
from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex
from core.units import NANOS_PER_SECOND

BATCH = 1000
BATCHES = 100
RUNS = 7
PAYLOAD = b"x" * 128

Batches = list[MessageColumns]


def config(**settings: Any) -> StreamConfig:
    """Return a stream configuration without limits, except the given settings."""
    defaults: dict[str, Any] = {
        "name": "S",
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
        "duplicate_window": 120 * NANOS_PER_SECOND,
    }
    return StreamConfig(**{**defaults, **settings})


def batches(subjects: int, header: Callable[[int], bytes] | None = None) -> Batches:
    """Return batches of messages with subjects in rotation; each value is a new object, as from a
    socket.
    """
    made = []
    n = 0
    for _ in range(BATCHES):
        columns = MessageColumns()
        for _ in range(BATCH):
            subject = b"bench.subject.%d" % (n * 7919 % subjects)
            reply = b"_INBOX.abcdefghij.%d" % n
            columns.add(subject, reply, header(n) if header else b"", PAYLOAD)
            n += 1
        made.append(columns)
    return made


def message_id(n: int) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: message-%d\r\n\r\n" % n


def expectation(_n: int) -> bytes:
    return b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n"


def rollup(_n: int) -> bytes:
    return b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"


KV = {"discard": Discard.NEW, "max_msgs_per_subject": 1, "allow_rollup_hdrs": True}
HISTORY = {**KV, "max_msgs_per_subject": 5}
CASES: tuple[tuple[str, StreamConfig, int, Callable[[int], bytes] | None], ...] = (
    ("plain, 1 subject", config(), 1, None),
    ("plain, 10 subjects", config(), 10, None),
    ("plain, 1000 subjects", config(), 1000, None),
    ("plain, 1000 subjects, max_msgs 10,000", config(max_msgs=10_000), 1000, None),
    ("plain, discard new, max_msgs 1e9", config(max_msgs=10**9, discard=Discard.NEW), 1000, None),
    ("key-value, 1 key", config(**KV), 1, None),
    ("key-value, 10,000 keys", config(**KV), 10_000, None),
    ("key-value, 10,000 keys, history 5", config(**HISTORY), 10_000, None),
    ("key-value, 10,000 keys, purge marker", config(**KV), 10_000, rollup),
    ("message ids", config(), 1000, message_id),
    ("expected stream", config(), 1000, expectation),
)


def steps(settings: StreamConfig, made: Batches) -> tuple[float, float]:
    """Return microseconds per message of decide and of apply, over the last 90 % of a run."""
    machine = StreamMachine(settings)
    now = time.time_ns()
    deciding = applying = 0
    for i, columns in enumerate(made):
        started = time.thread_time_ns()
        plan = decide(machine, columns, now + i * 1_000_000)
        decided = time.thread_time_ns()
        machine.apply(plan.build())
        ended = time.thread_time_ns()
        if i >= BATCHES // 10:
            deciding += decided - started
            applying += ended - decided
    counted = (BATCHES - BATCHES // 10) * BATCH * 1000
    return deciding / counted, applying / counted


def report() -> Iterator[str]:
    """Measure each case; yield a line with its result."""
    yield f"{'us per message':<40} {'decide':>8} {'apply':>8} {'both':>8}"
    for name, settings, subjects, header in CASES:
        made = batches(subjects, header)
        runs = [steps(settings, made) for _ in range(RUNS)]
        deciding, applying = (statistics.median(column) for column in zip(*runs, strict=True))
        both = deciding + applying
        yield f"{name:<40} {deciding:8.3f} {applying:8.3f} {both:8.3f}"


# -- memory --------------------------------------------------------------------------------------


def resident() -> int:
    """Return the bytes of resident memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def index_memory(make: Callable[[], LogIndex | LastIndex | HistoryIndex], count: int) -> float:
    """Return the bytes of memory per subject of an index, with the subject's name of 24 bytes."""
    gc.collect()
    before = resident()
    index = make()
    for start in range(0, count, BATCH):
        names = [b"orders.eu.customer.%08d" % n for n in range(start, start + BATCH)]
        index.add(range(start + 1, start + BATCH + 1), names, [200] * BATCH)
    used = resident() - before
    assert len(index) == count
    return used / count


def dedup_memory(count: int) -> float:
    """Return the bytes of memory per message id of 36 characters in the deduplication window."""
    gc.collect()
    before = resident()
    window = DedupWindow(120 * NANOS_PER_SECOND)
    for start in range(0, count, BATCH):
        ids = [(b"0123456789-0123456789-01-%011d" % n, n + 1) for n in range(start, start + BATCH)]
        window.add(ids, NANOS_PER_SECOND + start * 10_000)
    used = resident() - before
    assert len(window) == count
    return used / count


def report_memory() -> Iterator[str]:
    """Measure the memory of large indexes; yield a line with each result."""
    for make in (LogIndex, LastIndex, HistoryIndex):
        each = index_memory(make, 1_000_000)
        yield f"{make.__name__}, 1,000,000 subjects: {each:.0f} bytes each, {each:.0f} MB"
    each = dedup_memory(5_000_000)
    yield f"deduplication window, 5,000,000 ids: {each:.0f} bytes each, {each * 5:.0f} MB"


if __name__ == "__main__":
    for line in report_memory() if "--memory" in sys.argv[1:] else report():
        print(line)
