"""The load of a pull consumer with explicit acks: several open pull requests, every message
acked.
"""

import re
import time

from bench.wire import CHUNK, Connection, LoadError

BATCH = 500
OPEN = 4  # pull requests kept open
DONE = b"_INBOX.pull.done"

_REPLY = re.compile(rb"\$JS\.ACK\.\S+")


class Replies:
    """Parser that finds the ack subjects of deliveries in the bytes of a socket.

    `rest` is the start of an incomplete message.
    """

    def __init__(self) -> None:
        self.rest = b""

    def ack_subjects(self, data: bytes) -> list[bytes]:
        """Add the bytes of a read; return the ack subjects of all messages that are complete
        now.
        """
        data = self.rest + data
        cut = data.rfind(b"\r\nMSG ") + 2
        if cut < 2 or data.count(b"\n", cut) >= 2:
            cut = len(data) if data.endswith(b"\r\n") else max(cut, 0)
        self.rest = data[cut:]
        found: list[bytes] = _REPLY.findall(data, 0, cut)
        return found


class Requests:
    """Pull requests for a given number of messages, at most `OPEN` of them open at a time."""

    def __init__(self, stream: str, consumer: str, count: int) -> None:
        self._ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s _INBOX.pull.0 %d\r\n%d\r\n" % (
            stream.encode(),
            consumer.encode(),
            len(str(BATCH)),
            BATCH,
        )
        self._all = -(-count // BATCH)
        self._asked = 0

    def due(self, seen: int) -> bytes:
        """Return the pull requests to send after `seen` messages have arrived."""
        more = max(0, min(seen // BATCH + OPEN, self._all) - self._asked)
        self._asked += more
        return self._ask * more


def acks(replies: list[bytes], *, last: bool) -> bytes:
    """Return the bytes of acks; with `last`, the final one requests a confirmation."""
    out = [b"PUB %s 4\r\n+ACK\r\n" % reply for reply in replies]
    if last:
        out[-1] = b"PUB %s %s 4\r\n+ACK\r\n" % (replies[-1], DONE)
    return b"".join(out)


def await_done(connection: Connection, rest: bytes) -> None:
    """Read until the last ack is confirmed; `rest` are bytes read before."""
    while DONE not in rest:
        piece = connection.sock.recv(CHUNK)
        if not piece:
            raise LoadError("closed before the last acknowledgement was answered")
        rest += piece


def pull_all(connection: Connection, stream: str, consumer: str, count: int) -> float:
    """Pull and acknowledge `count` messages; return the seconds until the last ack is confirmed."""
    requests, replies = Requests(stream, consumer, count), Replies()
    connection.send(b"SUB _INBOX.pull.0 1\r\nSUB %s 2\r\n" % DONE)
    connection.flush()
    return receive_all(connection, replies, count, requests)


def receive_all(
    connection: Connection, replies: Replies, count: int, requests: Requests | None = None
) -> float:
    """Acknowledge `count` messages as they arrive; return the seconds until the last confirmation.

    Args:
        connection: Connection of the consumer.
        replies: Parser of its deliveries.
        count: Number of messages.
        requests: Pull requests to send; None for a push consumer.
    """
    sock = connection.sock
    seen = 0
    start = time.perf_counter()
    if requests is not None:
        sock.sendall(requests.due(0))
    while seen < count:
        data = sock.recv(CHUNK)
        if not data:
            raise LoadError("closed")
        found = replies.ack_subjects(data)
        seen += len(found)
        more = requests.due(seen) if requests is not None else b""
        sock.sendall(acks(found, last=bool(found) and seen >= count) + more)
    await_done(connection, replies.rest)
    return time.perf_counter() - start
