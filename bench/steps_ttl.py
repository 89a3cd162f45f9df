"""The delay of TTL expiry: `python -m bench.steps_ttl [--count N] [--keys N]`.

It publishes messages that expire within about a second, then publishes at a steady rate to another
stream of the same node. It measures when the first stream is empty, the latency of acks of the
second, and the latency of PING. With `--memory` it measures instead the memory per message that
will expire.
"""

import argparse
import gc
import json
import subprocess
import sys
import threading
import time

from bench.peers import Peer, started
from bench.steps_stream import resident
from bench.wire import Connection, Sender, one_by_one, percentile, publishes, pump
from core.model.segment import Segment
from core.rules.stream.state.expiry import Expiry

RATE = 5000
CHUNK = 10_000
PAYLOAD = b"x" * 128
# Seconds of measurement after the last expiry.
AFTER = 4
POLL_EVERY = 0.05


def publishes_with_ttl(start: int, count: int, keys: int, ttl: int) -> list[bytes]:
    """Return HPUBs of messages `start` to `start + count - 1`, over `keys` subjects in rotation.

    Each has a `Nats-TTL` of `ttl` seconds.
    """
    block = b"NATS/1.0\r\nNats-TTL: %d\r\n\r\n" % ttl
    sizes = b"%d %d" % (len(block), len(block) + len(PAYLOAD))
    tail = b" %b\r\n%b%b\r\n" % (sizes, block, PAYLOAD)
    return [b"HPUB t.%d _INBOX.f.%d" % (i % keys, i) + tail for i in range(start, start + count)]


def fill(peer: Peer, count: int, keys: int, lead: float) -> tuple[float, float]:
    """Publish messages that expire together; return the times at which the first and last expire.

    The times are in seconds since the epoch. `lead` is the time in seconds from now until the
    expiry.
    """
    connection = Connection(peer.address)
    connection.send(b"SUB _INBOX.f.* 1\r\n")
    target = time.time() + lead
    first, last = target + 3600, 0.0
    for start in range(0, count, CHUNK):
        begun = time.time()
        ttl = int(target - begun) + 1
        if ttl < 1:
            raise SystemExit("the messages were not published in time: use a longer --lead")
        part = publishes_with_ttl(start, min(CHUNK, count - start), keys, ttl)
        pump([Sender(connection, part)], window=2000)
        first, last = min(first, begun + ttl), max(last, time.time() + ttl)
    connection.close()
    return first, last


class Watch(threading.Thread):
    """A thread that requests STREAM.INFO until the stream is empty."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(daemon=True)
        self.connection = Connection(peer.address)
        self.counts: list[tuple[float, int]] = []
        self.slowest = 0.0

    def run(self) -> None:
        while not self.counts or self.counts[-1][1]:
            asked = time.time()
            state = self.connection.api("STREAM.INFO.T")["state"]
            self.counts.append((time.time(), state["messages"]))
            self.slowest = max(self.slowest, time.time() - asked)
            time.sleep(POLL_EVERY)


def steady(peer: Peer, until: float) -> list[float]:
    """Publish at a steady rate to a stream; return ack latencies of other publishes, in ms.

    The latter are published one by one, to the same stream. `until` is the time of the end, in
    seconds since the epoch.
    """
    load, probe = Connection(peer.address), Connection(peer.address)
    load.send(b"SUB _INBOX.g.* 1\r\n")
    probe.send(b"SUB _INBOX.h.* 1\r\n")
    messages = publishes(b"u.load", int((until - time.time()) * RATE), PAYLOAD, b"_INBOX.g")
    taken: list[float] = []
    stop = threading.Event()

    def publish_probes() -> None:
        for message in publishes(b"u.probe", 1_000_000, PAYLOAD, b"_INBOX.h"):
            if stop.wait(0.01):
                return
            taken.append(one_by_one(probe, [message])[0] / 1e6)

    prober = threading.Thread(target=publish_probes, daemon=True)
    prober.start()
    pump([Sender(load, messages)], window=50_000, rate=RATE)
    stop.set()
    prober.join()
    return taken


def measure(peer: Peer, count: int, keys: int, lead: float, per_subject: int) -> None:
    """Publish, wait for the expiry, and print the measurements."""
    admin = Connection(peer.address)
    config = {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True}
    admin.api("STREAM.CREATE.T", config | {"max_msgs_per_subject": per_subject})
    admin.api("STREAM.CREATE.U", {"name": "U", "subjects": ["u.>"]})
    begun = time.time()
    first, last = fill(peer, count, keys, lead)
    there = admin.api("STREAM.INFO.T")["state"]["messages"]
    print(f"{there} messages published in {time.time() - begun:.1f} s")
    print(f"due between {first - time.time():.2f} and {last - time.time():.2f} s from now")
    time.sleep(max(first - 1.0 - time.time(), 0))
    host, port = peer.address
    pinging = subprocess.Popen(
        [sys.executable, "-m", "bench.ping", host, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    watch = Watch(peer)
    watch.start()
    taken = steady(peer, last + AFTER)
    watch.join(60)
    pings = json.loads(pinging.communicate()[0])
    late = next((at - last for at, left in watch.counts if not left), float("nan"))
    begin = next((at - first for at, left in watch.counts if left < there), float("nan"))
    print(f"first seen to leave {begin:+.2f} s after the first was due")
    print(f"the state was empty {late:+.2f} s after the last was due")
    print(f"slowest answer to STREAM.INFO {watch.slowest * 1e3:.0f} ms")
    for share in (0.5, 0.99, 1.0):
        print(
            f"publish into the other stream, p{share * 100:.0f}: {percentile(taken, share):.1f} ms"
        )
    print(", ".join(f"PING {name} {value / 1e3:.1f} ms" for name, value in pings.items()))


def print_memory(count: int) -> None:
    """Print the memory that the expiry of one message needs, without the message and its
    subject.
    """
    subjects = [b"t.%d" % (i % 1000) for i in range(count)]
    block = b"NATS/1.0\r\nNats-TTL: 3600\r\n\r\n"
    gc.collect()
    before = resident()
    expiry = Expiry(0)
    for at in range(0, count, CHUNK):
        part = subjects[at : at + CHUNK]
        n = len(part)
        seqs = range(at + 1, at + n + 1)
        expiry.add(Segment(seqs, seqs, part, [block] * n, [b""] * n, 0), [200] * n)
    print(f"{count} messages wait, {(resident() - before) / count:.0f} bytes each")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.steps_ttl", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000, help="subjects")
    parser.add_argument("--lead", type=float, default=40, help="seconds to publish them all in")
    parser.add_argument("--per-subject", type=int, default=-1, help="max_msgs_per_subject")
    parser.add_argument("--peer", default="jetgate", help="jetgate or nats")
    parser.add_argument("--memory", action="store_true", help="only weigh what waits")
    chosen = parser.parse_args()
    if chosen.memory:
        print_memory(chosen.count)
        return
    with started((chosen.peer,)) as peers:
        peer = peers[chosen.peer]
        measure(peer, chosen.count, chosen.keys, chosen.lead, chosen.per_subject)


if __name__ == "__main__":
    main()
