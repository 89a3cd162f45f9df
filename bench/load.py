"""The interface of loads, and functions that create and fill streams."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench.peers import Peer
from bench.wire import Connection, Sender, pump

Measure = dict[str, float]


class Load(Protocol):
    """A load to measure servers with: `prepare` once for each server, then `run` several times."""

    def prepare(self, peer: Peer, scale: float) -> None:
        """Prepare a server before its first run, for instance fill a stream; the time is not
        measured.

        Loads whose runs create their own streams or servers do nothing here.

        Args:
            peer: The server.
            scale: Factor for the number of messages.
        """

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        """Run the load once; return the measured values by name.

        Args:
            peer: The server.
            scale: Factor for the number of messages.
            run: Number of the run, from 0.
        """
        ...


def stream(connection: Connection, name: str, **config: object) -> None:
    """Create a stream with the subjects `<name>.>`."""
    connection.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})


def fill(
    peer: Peer,
    name: str,
    count: int,
    subjects: int,
    token: Callable[[int], bytes] = b"%d".__mod__,
    **config: object,
) -> None:
    """Create a stream and publish `count` messages, distributed over `subjects` subjects.

    The subject of a message is `<name>.` followed by `token` of the number of its subject.
    """
    connection = Connection(peer.address)
    stream(connection, name, **config)
    connection.send(b"SUB _INBOX.fill.* 1\r\n")
    tail = b" 128\r\n%s\r\n" % (b"x" * 128)
    for start in range(0, count, 200_000):
        block = [
            b"PUB %s.%s _INBOX.fill.%d%s" % (name.encode(), token(i % subjects), i, tail)
            for i in range(start, min(count, start + 200_000))
        ]
        pump([Sender(connection, block)], window=4000)
    connection.close()


def processor_of(peer: Peer) -> float:
    """Return the processor time of the server's own process so far, in microseconds."""
    fields = Path(f"/proc/{peer.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6
