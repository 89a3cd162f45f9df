"""The load of core publish/subscribe: one connection publishes, another receives."""

import gc
import select
import time
from contextlib import suppress

from bench.wire import CHUNK, Connection, LoadError


def relay(
    sender: Connection, receiver: Connection, message: bytes, count: int, *, ahead: int
) -> float:
    """Publish `count` copies of `message`; return the seconds until all are received.

    At most `ahead` messages are sent and not yet received.

    Raises LoadError if no data arrives for 20 s.
    """
    out, back = sender.sock, receiver.sock
    block = memoryview(message * (ahead + 1))
    size = len(message)
    total, sent, lines = count * size, 0, 0
    for sock in (out, back):
        sock.setblocking(False)
    poll = select.epoll()
    poll.register(back.fileno(), select.EPOLLIN)
    poll.register(out.fileno(), select.EPOLLOUT)
    waiting = True
    gc.disable()
    start = time.perf_counter()
    try:
        while lines < 2 * count:
            events = poll.poll(20)
            if not events:
                raise LoadError(f"received {lines // 2} of {count}")
            for fd, _ in events:
                if fd == back.fileno():
                    data = back.recv(CHUNK)
                    if not data:
                        raise LoadError("closed")
                    lines += data.count(b"\n")
            allowed = min(total, (lines // 2 + ahead) * size)
            if sent < allowed:
                at = sent % size
                with suppress(BlockingIOError):
                    sent += out.send(block[at : at + min(allowed - sent, CHUNK)])
            if waiting != (sent < allowed):
                waiting = not waiting
                poll.modify(out.fileno(), select.EPOLLOUT if waiting else 0)
        return time.perf_counter() - start
    finally:
        gc.enable()
        poll.close()
        for sock in (out, back):
            sock.settimeout(30)
