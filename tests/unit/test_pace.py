"""Publishers at a steady rate, and what is measured beside them."""

# Subject: costs

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from bench.pace import STAMP, WINDOW, Part, Publisher, measured
from bench.spark_live import latencies, rows_per_second

RATE = 1000.0


@pytest.fixture
def ends() -> Iterator[tuple[Publisher, socket.socket]]:
    """A publisher and the other end of its connection, which has read the SUB."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher = Publisher(ours, b"a.b", 7, RATE)
        assert theirs.recv(100) == b"SUB _INBOX.pace7.* 1\r\n"
        yield publisher, theirs


def _payloads(data: bytes) -> list[int]:
    """When the messages were due, of which the lines are as they have to be."""
    lines = data.split(b"\r\n")
    assert lines.pop() == b""
    for number, line in enumerate(lines[::2]):
        assert line == b"PUB a.b _INBOX.pace7.%d 128" % number
    assert {len(payload) for payload in lines[1::2]} == {128}
    return [int(payload[:STAMP]) for payload in lines[1::2]]


def test_a_message_is_sent_when_it_is_due_and_carries_that_time(
    ends: tuple[Publisher, socket.socket],
) -> None:
    publisher, server = ends
    publisher.send(0.0025, 5_000_000)
    assert _payloads(server.recv(10_000)) == [5_000_000, 6_000_000, 7_000_000]


def test_no_more_are_sent_than_may_be_without_an_ack(
    ends: tuple[Publisher, socket.socket],
) -> None:
    publisher, server = ends
    received, elapsed = b"", 1e3
    while received.count(b"PUB ") < WINDOW or not received.endswith(b"\r\n"):
        publisher.send(elapsed, 0)
        received += server.recv(1 << 20)
    publisher.send(elapsed, 0)
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.recv(1)
    assert received.count(b"PUB ") == WINDOW


def test_acks_are_counted_wherever_they_are_cut(ends: tuple[Publisher, socket.socket]) -> None:
    publisher, server = ends
    ack = b'MSG _INBOX.pace7.0 1 24\r\n{"stream":"S","seq":100}\r\n'
    server.sendall(ack + b"PING\r\n" + ack[:-1])
    assert publisher.read() == (0, 1)
    server.sendall(ack[-1:] + ack)
    assert publisher.read() == (1, 3)
    publisher.send(-1.0, 0)
    assert server.recv(100) == b"PONG\r\n"


def test_an_ack_is_waited_for_from_when_its_message_was_due() -> None:
    part = Part(1.0, 3.0, [(0.0, 0, 0), (1.5, 1000, 1002), (2.0, 1002, 1003)])
    (found,) = measured([part], RATE)
    assert found == pytest.approx({"rate": 1.5, "p50": 500.0, "p99": 998.0, "max": 998.0})


def test_the_rate_of_a_reader_leaves_out_the_batch_that_is_under_way() -> None:
    first = datetime(2026, 11, 22, tzinfo=UTC)
    batches = [(first + timedelta(seconds=2 * n), 100) for n in range(4)]
    assert rows_per_second(batches) == 50
    assert rows_per_second(batches[:1]) == 0


def test_a_row_is_late_by_the_time_since_its_message_was_due() -> None:
    assert latencies([(3_000_000_000, [1_000_000_000, 2_500_000_000])]) == [2.0, 0.5]
