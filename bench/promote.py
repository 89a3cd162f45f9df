"""The load of a transaction: rows are staged in blocks, then stored exactly once by a COMMIT."""

import time
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import Connection, Sender, pump

_ATTEMPTS = 10
_BLOCK = 5000  # rows
_SIZE = 128
_SUBJECTS = 1000
_WINDOW = 20  # payloads that are not yet acknowledged


@dataclass(slots=True)
class Promote:
    """One transaction of `count` rows, staged in ten parts (attempts).

    `rate` is rows per second from the COMMIT request to the answer that all are stored. `staged` is
    rows per second while one connection stages them.
    """

    count: int
    ids: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        per_attempt = int(self.count * scale) // _ATTEMPTS
        connection, name = Connection(peer.address), f"PROMOTE{run}"
        stream(connection, name)
        who = {"app": "bench", "run": "bench"}
        token = _ask(connection, "OPEN", name, who)["token"]
        took = 0.0
        attempts = []
        for number in range(_ATTEMPTS):
            payloads = [
                self._block(name, number * per_attempt + start, min(_BLOCK, per_attempt - start))
                for start in range(0, per_attempt, _BLOCK)
            ]
            first = _last_seq(connection, name) + 1
            took += _stage(connection, name, f"a{number}", payloads)
            seqs = [[first, first + len(payloads) - 1]]
            crc = 0
            for payload in payloads:
                crc = crc32c(payload, crc)
            attempts.append({"id": f"a{number}", "seqs": seqs, "rows": per_attempt, "crc": crc})
        commit = {"app": "bench", "token": token, "batch": 0, "attempts": attempts}
        began = time.perf_counter()
        while (done := _ask(connection, "COMMIT", name, commit))["state"] != "done":
            pass
        seconds = time.perf_counter() - began
        connection.close()
        assert done["promoted"] == done["last_seq"] == per_attempt * _ATTEMPTS, done
        return {"rate": done["rows"] / seconds, "staged": done["rows"] / took}

    def _block(self, name: str, start: int, count: int) -> bytes:
        payload = b"x" * _SIZE
        rows = []
        for n in range(start, start + count):
            subject = b"%b.%d" % (name.encode(), n % _SUBJECTS)
            if self.ids:
                head = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % n
                rows.append(b"HPUB %b %d %d\r\n" % (subject, len(head), len(head) + _SIZE))
                rows.append(head + payload + b"\r\n")
            else:
                rows.append(b"PUB %b %d\r\n%b\r\n" % (subject, _SIZE, payload))
        return b"".join(rows)


def _ask(connection: Connection, verb: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    return dict(connection.api(f"TXN.{verb}.{name}", body, prefix="$JG.API."))


def _last_seq(connection: Connection, name: str) -> int:
    return int(connection.api(f"STREAM.INFO.JG_STAGE_{name}")["state"]["last_seq"])


def _stage(connection: Connection, name: str, attempt: str, payloads: list[bytes]) -> float:
    """Publish blocks of rows; return the seconds until all are acknowledged."""
    other = Connection(connection.sock.getpeername())
    other.send(b"SUB _INBOX.stage 1\r\n")
    subject = f"$JG.STAGE.{name}.{attempt}".encode()
    messages = [b"PUB %b _INBOX.stage %d\r\n%b\r\n" % (subject, len(b), b) for b in payloads]
    seconds = pump([Sender(other, messages)], window=_WINDOW)
    other.close()
    return seconds
