"""The load of a million messages that expire at the same time, during other publishes."""

import time
from dataclasses import dataclass

from bench.load import Measure
from bench.peers import Peer
from bench.steps_ttl import Watch, fill, steady
from bench.wire import Connection, LoadError, percentile

AFTER = 3  # seconds for which the measurement continues after the last message is due
WITHIN = 30
LEADS = (15, 40, 90)  # seconds in which to publish them: too short a value is followed by the next


@dataclass(slots=True)
class Expiry:
    """Messages with a TTL, each on its own subject, that expire within about a second.

    `late` is the time in microseconds from the expiry of the last message until the stream is
    empty. `p50` and `p99` are latencies in microseconds of publishes to another stream during that
    time, at 5,000 per second.
    """

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        admin = Connection(peer.address)
        count = int(self.count * scale)
        for lead in LEADS:
            for name in admin.api("STREAM.NAMES")["streams"] or []:
                admin.api(f"STREAM.DELETE.{name}")
            admin.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True})
            admin.api("STREAM.CREATE.U", {"name": "U", "subjects": ["u.>"]})
            try:
                first, last = fill(peer, count, count, lead)
                break
            except SystemExit:
                continue
        else:
            raise LoadError(f"{count} messages were not published within {LEADS[-1]} s")
        assert admin.api("STREAM.INFO.T")["state"]["messages"] == count
        time.sleep(max(first - 0.5 - time.time(), 0))
        watch = Watch(peer)
        watch.start()
        taken = steady(peer, last + AFTER)
        watch.join(WITHIN)
        admin.close()
        if watch.is_alive():
            raise LoadError(f"{watch.counts[-1][1]} messages are still there")
        late = next(at for at, left in watch.counts if not left) - last
        return {
            "late": max(late, 0.0) * 1e6,
            "p50": percentile(taken, 0.5) * 1e3,
            "p99": percentile(taken, 0.99) * 1e3,
        }
