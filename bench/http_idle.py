"""The cost of an HTTP port without requests for a publisher over NATS."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import Address, Connection, Sender, publishes, pump
from tests.support.dropin import DropIn

WINDOW = 2000


@dataclass(slots=True)
class IdleHttp:
    """Asynchronous publish to a node with an HTTP port and to one without, in rotation.

    `rate` is messages per second with the port, `open` without; `cost` is the ratio of the times.
    """

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory) / "server.conf"
            store = f'jetstream {{ store_dir: "{directory}/store" }}'
            config.write_text(f"host: 127.0.0.1\nport: -1\n{store}\n")
            with DropIn("jetgate-nats-server", "-c", str(config)) as without:
                without.ports()
                for address in (peer.address, without.address):
                    _publish(address, f"WARM{run}", count // 4)
                ours = plain = 0.0
                for turn in range(2):
                    ours += _publish(peer.address, f"BESIDE{run}{turn}", count)
                    plain += _publish(without.address, f"BESIDE{run}{turn}", count)
        return {"rate": 2 * count / ours, "open": 2 * count / plain, "cost": ours / plain}


def _publish(address: Address, name: str, count: int) -> float:
    connection = Connection(address)
    stream(connection, name)
    connection.send(b"SUB _INBOX.pub.* 1\r\n")
    messages = publishes(name.encode() + b".a", count, b"x" * 128, b"_INBOX.pub")
    seconds = pump([Sender(connection, messages)], window=WINDOW)
    connection.api(f"STREAM.DELETE.{name}")
    connection.close()
    return seconds
