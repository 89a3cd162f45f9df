"""The load of a fast-ingest batch: one ack for as many messages as the server allows."""

import time
from dataclasses import dataclass

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import CHUNK, Connection, LoadError

_FLOW = 500  # the largest number of messages per ack
_AHEAD = 3 * _FLOW  # messages that a client may send ahead of the acks: three acks
_ACK, _END = b'"seq":', b'"count":'


@dataclass(slots=True)
class Ingest:
    """One fast-ingest batch of `count` messages; `rate` is messages per second."""

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count, name = int(self.count * scale), f"FAST{run}"
        connection = Connection(peer.address)
        stream(connection, name, allow_batched=True)
        connection.send(b"SUB _INBOX.fast.> 1\r\n")
        writes = [
            _block(name.encode(), start, min(start + _FLOW, count + 1), count)
            for start in range(1, count + 1, _FLOW)
        ]
        began = time.perf_counter()
        _send(connection, writes)
        seconds = time.perf_counter() - began
        stored = connection.api(f"STREAM.INFO.{name}")["state"]["messages"]
        assert stored == count, stored
        connection.close()
        return {"rate": count / seconds}


def _block(name: bytes, start: int, stop: int, last: int) -> bytes:
    tail = b".$FI 128\r\n%b\r\n" % (b"x" * 128)
    head = b"PUB %b.a _INBOX.fast.b.%d.fail." % (name, _FLOW)
    return b"".join(
        b"%b%d.%d%b" % (head, seq, 0 if seq == 1 else 2 if seq == last else 1, tail)
        for seq in range(start, stop)
    )


def _send(connection: Connection, writes: list[bytes]) -> None:
    """Send as many messages before their acks as the server allows, until the batch is
    acknowledged.
    """
    sent = acked = 0
    data = b""
    while _END not in data:
        while sent < len(writes) and sent * _FLOW - acked < _AHEAD:
            connection.send(writes[sent])
            sent += 1
        piece = connection.sock.recv(CHUNK)
        if not piece or b'"err' in piece:
            raise LoadError(f"refused: {piece[-300:]!r}")
        data = data[-300:] + piece
        whole = data[: data.rfind(b"\r\n")]
        seq = whole.rpartition(_ACK)[2].partition(b",")[0]
        acked = max(acked, int(seq)) if seq.isdigit() else acked
