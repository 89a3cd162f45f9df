"""The cost of permissions in core publish/subscribe over 1,000 connections."""

import gc
import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import Measure
from bench.peers import Peer
from bench.wire import CHUNK, Connection, LoadError
from tests.support.dropin import DropIn
from tests.support.jetgate import JetgateServer

PAIRS = 500
ROUND = 20  # messages that a publisher sends at a time
AHEAD = 3  # rounds that may be sent and not yet received
USERS = 10
RULES = """authorization {
  default_permissions {
    publish { allow: ["core.>", "_INBOX.>"], deny: ["core.*.secret"] }
    subscribe { allow: ["core.>", "_INBOX.>"], deny: ["core.*.secret"] }
  }
  users: [ %s ]
}
"""


@dataclass(slots=True)
class Guarded:
    """Pairs of a publisher and a subscriber, on a server with permissions and on one without.

    `rate` is messages per second with permissions, `open` without; `cost` is the ratio of the
    times.
    """

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        rounds = max(1, int(self.count * scale) // (PAIRS * ROUND))
        name = "jetgate-nats-server" if isinstance(peer, JetgateServer) else "nats-server"
        with _servers(name) as (free, guarded):
            _relay(free, rounds // 4 or 1, guarded=False)
            _relay(guarded, rounds // 4 or 1, guarded=True)
            plain = _relay(free, rounds, guarded=False)
            ours = _relay(guarded, rounds, guarded=True)
            plain += _relay(free, rounds, guarded=False)
            ours += _relay(guarded, rounds, guarded=True)
        count = 2 * rounds * PAIRS * ROUND
        return {"rate": count / ours, "open": count / plain, "cost": ours / plain}


@contextmanager
def _servers(name: str) -> Iterator[tuple[DropIn, DropIn]]:
    """Start the same server twice, without and with permissions."""
    listed = ", ".join(f"{{ user: u{i}, password: p{i} }}" for i in range(USERS))
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        found: list[DropIn] = []
        for rules in ("", RULES % listed):
            config = Path(directory) / f"{len(found)}.conf"
            config.write_text("host: 127.0.0.1\nport: -1\n" + rules)
            server = stack.enter_context(DropIn(name, "-c", str(config)))
            server.ports()
            found.append(server)
        yield found[0], found[1]


def _relay(server: DropIn, rounds: int, *, guarded: bool) -> float:
    """Send `rounds` times 20 messages from each publisher to its subscriber.

    Returns the seconds from the first to the last byte.
    """

    def connect(number: int) -> Connection:
        user = number % USERS
        who = b'"user":"u%d","pass":"p%d",' % (user, user) if guarded else b""
        return Connection(server.address, who)

    receivers = [connect(i) for i in range(PAIRS)]
    for i, receiver in enumerate(receivers):
        receiver.send(b"SUB core.%d.* 1\r\n" % i)
        receiver.flush()
    senders = [connect(i) for i in range(PAIRS)]
    writes = [b"PUB core.%d.a 128\r\n%s\r\n" % (i, b"x" * 128) * ROUND for i in range(PAIRS)]
    gc.disable()
    try:
        return _pump(senders, receivers, writes, rounds)
    finally:
        gc.enable()
        for connection in (*senders, *receivers):
            connection.close()


def _pump(
    senders: list[Connection], receivers: list[Connection], writes: list[bytes], rounds: int
) -> float:
    poll = select.epoll()
    sockets = {receiver.sock.fileno(): receiver.sock for receiver in receivers}
    for fd in sockets:
        poll.register(fd, select.EPOLLIN)
    lines, each = 0, 2 * ROUND * len(senders)
    start = time.perf_counter()
    for number in range(rounds + AHEAD):
        if number < rounds:
            for sender, write in zip(senders, writes, strict=True):
                sender.sock.sendall(write)
        while lines < (min(number + 1 - AHEAD, rounds) * each):
            events = poll.poll(20)
            if not events:
                raise LoadError(f"{lines // 2} messages, then silence")
            for fd, _ in events:
                data = sockets[fd].recv(CHUNK)
                if not data:
                    raise LoadError("closed")
                lines += data.count(b"\n")
    seconds = time.perf_counter() - start
    poll.close()
    return seconds
