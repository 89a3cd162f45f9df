"""The load of a work queue: one connection publishes, another one pulls and acknowledges."""

import gc
import select
import time
from contextlib import suppress
from dataclasses import dataclass

from bench.load import Measure, stream
from bench.peers import Peer
from bench.pull import DONE, Replies, Requests, acks
from bench.wire import ACK_LINES, CHUNK, Connection, LoadError, publishes

WINDOW = 2000


@dataclass(slots=True)
class Queue:
    """Publish, pull and acknowledge, until the stream has removed all messages."""

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        name = f"QUEUE{run}"
        publisher, worker = Connection(peer.address), Connection(peer.address)
        stream(publisher, name, retention="workqueue")
        config = {"durable_name": "W", "ack_policy": "explicit", "max_ack_pending": 20000}
        publisher.api(f"CONSUMER.CREATE.{name}.W", {"stream_name": name, "config": config})
        publisher.send(b"SUB _INBOX.queue.* 1\r\n")
        worker.send(b"SUB _INBOX.pull.0 1\r\nSUB %s 2\r\n" % DONE)
        publisher.flush()
        worker.flush()
        messages = publishes(name.encode() + b".a", count, b"x" * 128, b"_INBOX.queue")
        seconds = _work(publisher, worker, messages, Requests(name, "W", count))
        info = publisher.api(f"STREAM.INFO.{name}")
        assert info["state"]["messages"] == 0, info
        publisher.close()
        worker.close()
        return {"rate": count / seconds}


class _Out:
    """The bytes of one connection that its socket has not accepted yet."""

    def __init__(self, poll: select.epoll, connection: Connection) -> None:
        self.sock = connection.sock
        self.fd = connection.sock.fileno()
        self._poll = poll
        self._rest = memoryview(b"")
        self._waiting = False
        self.sock.setblocking(False)
        poll.register(self.fd, select.EPOLLIN)

    def send(self, data: bytes) -> None:
        """Send bytes; keep those that the socket does not accept for the next call."""
        if data:
            self._rest = memoryview(self._rest.tobytes() + data)
        if self._rest:
            with suppress(BlockingIOError):
                self._rest = self._rest[self.sock.send(self._rest) :]
        if self._waiting != bool(self._rest):
            self._waiting = not self._waiting
            self._poll.modify(self.fd, select.EPOLLIN | (select.EPOLLOUT if self._waiting else 0))


def _work(
    publisher: Connection, worker: Connection, messages: list[bytes], requests: Requests
) -> float:
    """Run the load; return the seconds until the last ack is confirmed."""
    poll = select.epoll()
    source, sink = _Out(poll, publisher), _Out(poll, worker)
    gc.disable()
    try:
        return _run(poll, source, sink, messages, requests)
    finally:
        gc.enable()
        poll.close()
        for out in (source, sink):
            out.sock.settimeout(30)


def _run(
    poll: select.epoll, source: _Out, sink: _Out, messages: list[bytes], requests: Requests
) -> float:
    count, replies = len(messages), Replies()
    sent, lines, seen = WINDOW, 0, 0
    start = time.perf_counter()
    sink.send(requests.due(0))
    source.send(b"".join(messages[:WINDOW]))
    while True:
        events = poll.poll(20)
        if not events:
            raise LoadError(f"{lines // ACK_LINES} acknowledged, {seen} delivered of {count}")
        for fd, event in events:
            out = sink if fd == sink.fd else source
            if event & select.EPOLLOUT:
                out.send(b"")
            if not event & select.EPOLLIN:
                continue
            data = out.sock.recv(CHUNK)
            if not data or b'"error"' in data:
                raise LoadError(f"answered {data[:300]!r}")
            if out is source:
                lines += data.count(b"\n")
                allowed = min(lines // ACK_LINES + WINDOW, count)
                source.send(b"".join(messages[sent:allowed]))
                sent = max(sent, allowed)
                continue
            found = replies.ack_subjects(data)
            if seen == count and DONE in data:
                return time.perf_counter() - start
            if found:
                seen += len(found)
                sink.send(acks(found, last=seen == count) + requests.due(seen))
