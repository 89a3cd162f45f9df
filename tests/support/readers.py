"""A consumer without clients: its state machine, and the methods that a stream calls on it."""

from typing import Any, cast

from core.model.consumer import AckPolicy, ConsumerConfig
from core.rules.consumer.machine import ConsumerMachine
from core.rules.consumer.state import decode, encode
from tests.support.streams import StreamBench


class Reader:
    """A consumer of the stream of a `StreamBench`, with explicit acknowledgements.

    It begins at the first message and registers itself as a consumer of the stream.
    """

    def __init__(self, bench: StreamBench, name: str, *filters: str) -> None:
        wanted = ConsumerConfig(
            durable_name=name, ack_policy=AckPolicy.EXPLICIT, filter_subjects=filters
        )
        self.bench = bench
        self.machine = ConsumerMachine(wanted, 1)
        self.machine.settled = []
        bench.runner.consumers[name] = cast(Any, self)

    def needs(self, seq: int, subject: bytes) -> bool:
        return self.machine.needs(seq, subject)

    def on_stored(self, segment: Any, counts: Any) -> None:
        self.machine.num_pending += len(segment)

    def on_removed(self, removed: Any, *, tells: bool = True, purged: bool = False) -> None:
        self.machine.removed(removed, tells=tells, purged=purged)

    def report_settled_now(self) -> None:
        settled, self.machine.settled = self.machine.settled or [], []
        if settled:
            self.machine.leaving.update(settled)
            self.bench.runner.mark_settled(settled)

    def deliver(self, *seqs: int) -> None:
        self.machine.deliver(seqs, 0)

    def stored(self) -> bytes:
        """Return the consumer's state as stored in its database row."""
        return encode(self.machine.state(0))

    def restore(self, stored: bytes) -> None:
        """Replace the consumer's state by one that `stored` returned."""
        self.machine.restored(decode(stored), 0, self.bench.runner.log.is_live)
