"""The load of a push consumer, with or without acknowledgements."""

import time
from dataclasses import dataclass

from bench.load import Measure, fill
from bench.peers import Peer
from bench.pull import DONE, Replies, receive_all
from bench.wire import CHUNK, Connection, LoadError


@dataclass(slots=True)
class Push:
    """A push consumer that delivers messages just stored, or (`cold`) after a restart of the
    server.
    """

    count: int
    acks: bool = False
    cold: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        if self.cold:
            fill(peer, "COLD", int(self.count * scale), 100)

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        name, durable = ("COLD" if self.cold else f"PUSH{run}"), f"C{run}"
        if self.cold:
            peer.restart()
        else:
            fill(peer, name, count, 100)
        connection = Connection(peer.address)
        # A new subject: after a restart, consumers of earlier runs may redeliver to theirs.
        connection.send(b"SUB push.%d 1\r\nSUB %s 2\r\n" % (run, DONE))
        connection.flush()
        config = {
            "durable_name": durable,
            "deliver_subject": f"push.{run}",
            "ack_policy": "explicit" if self.acks else "none",
            "max_ack_pending": 20000 if self.acks else 0,
        }
        start = time.perf_counter()
        admin = Connection(peer.address)
        request = {"stream_name": name, "config": config}
        admin.api(f"CONSUMER.CREATE.{name}.{durable}", request)
        if self.acks:
            receive_all(connection, Replies(), count)
        else:
            _count(connection, count)
        seconds = time.perf_counter() - start
        info = admin.api(f"CONSUMER.INFO.{name}.{durable}")
        assert info["num_pending"] == info["num_ack_pending"] == 0, info
        assert info["delivered"]["consumer_seq"] == count, info
        connection.close()
        admin.close()
        return {"rate": count / seconds}


def _count(connection: Connection, count: int) -> None:
    """Read until `count` messages have arrived; each has two lines."""
    lines = 0
    while lines < 2 * count:
        data = connection.sock.recv(CHUNK)
        if not data:
            raise LoadError("closed")
        lines += data.count(b"\n") - data.count(b"PING\r\n")
