"""Pull with explicit acknowledgement: requests kept open, every message acknowledged."""

import re
import time

from bench.wire import CHUNK, Connection, LoadError

BATCH = 500
OPEN = 4  # pull requests kept open

_REPLY = re.compile(rb"\$JS\.ACK\.\S+")


def pull_all(connection: Connection, stream: str, consumer: str, count: int) -> float:
    """Fetch and acknowledge `count` messages; seconds until the last acknowledgement is confirmed.

    The last one is a double ack: its answer says that all before it have been processed.
    """
    ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s _INBOX.pull.0 %d\r\n%d\r\n" % (
        stream.encode(),
        consumer.encode(),
        len(str(BATCH)),
        BATCH,
    )
    sock = connection.sock
    connection.send(b"SUB _INBOX.pull.0 1\r\nSUB _INBOX.pull.done 2\r\n")
    connection.flush()
    start = time.perf_counter()
    asked = min(OPEN, -(-count // BATCH))
    sock.sendall(ask * asked)
    seen, rest = 0, b""
    while seen < count:
        data = sock.recv(CHUNK)
        if not data:
            raise LoadError("closed")
        data = rest + data
        cut = data.rfind(b"\r\nMSG ") + 2
        if cut < 2 or data.count(b"\n", cut) >= 2:
            cut = len(data) if data.endswith(b"\r\n") else max(cut, 0)
        replies = _REPLY.findall(data, 0, cut)
        rest = data[cut:]
        seen += len(replies)
        out = [b"PUB %s 4\r\n+ACK\r\n" % reply for reply in replies]
        if seen >= count:
            out[-1] = b"PUB %s _INBOX.pull.done 4\r\n+ACK\r\n" % replies[-1]
        more = max(0, min(seen // BATCH + OPEN, -(-count // BATCH)) - asked)
        asked += more
        sock.sendall(b"".join(out) + ask * more)
    while b"_INBOX.pull.done" not in rest:
        piece = sock.recv(CHUNK)
        if not piece:
            raise LoadError("closed before the last acknowledgement was answered")
        rest += piece
    return time.perf_counter() - start
