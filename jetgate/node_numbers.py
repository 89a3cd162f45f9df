"""What a node in the same process says of itself, as the numbers of /metrics.

Part of the composition, like the command: the facade itself knows no node.
"""

from core.jetstream.lane import COMMIT_BOUNDS, Lane
from core.node import Node
from core.runtime.stalls import StallWatch
from gateway.metrics import ConsumerNumbers, Histogram, RemoteNumbers, Snapshot, StreamNumbers


def snapshot(node: Node, stalls: StallWatch) -> Snapshot:
    """Return the node's numbers at this moment."""
    traffic = node.hub.totals()
    return Snapshot(
        streams=_streams(node),
        consumers=_consumers(node),
        remotes=_remotes(node),
        connections=len(node.hub.sessions),
        subscriptions=sum(a.client_subscriptions for a in node.hub.accounts.values()),
        in_msgs=traffic.in_msgs,
        out_msgs=traffic.out_msgs,
        in_bytes=traffic.in_bytes,
        out_bytes=traffic.out_bytes,
        slow_consumers=node.hub.slow_consumers,
        commits=node.lane.commits,
        commit_failures=node.lane.failures,
        commit_seconds=_commit_seconds(node.lane),
        loop_stalls=stalls.count,
        gauges={"jetgate_rows_swept": float(node.janitor.rows)},
    )


def _commit_seconds(lane: Lane) -> Histogram:
    return Histogram(COMMIT_BOUNDS, lane.commit_counts, lane.commit_ns / 1e9)


def _streams(node: Node) -> list[StreamNumbers]:
    return [
        StreamNumbers(
            runner.name,
            runner.machine.msgs,
            runner.machine.bytes,
            runner.machine.first_seq,
            runner.machine.last_seq,
            len(runner.consumers),
        )
        for runner in node.registry.streams.values()
    ]


def _consumers(node: Node) -> list[ConsumerNumbers]:
    return [
        ConsumerNumbers(
            runner.name,
            consumer.name,
            max(consumer.machine.num_pending, 0),
            len(consumer.machine.pending),
            len(consumer.machine.pending.counts),
            len(consumer.machine.waiting),
        )
        for runner in node.registry.streams.values()
        for consumer in runner.consumers.values()
    ]


def _remotes(node: Node) -> list[RemoteNumbers]:
    return [
        RemoteNumbers(
            name,
            attached.line.connected,
            attached.rtt_ns / 1e9,
            attached.bridge.requests,
            attached.bridge.relays.messages,
        )
        for name, attached in sorted(node.remotes.attached.items())
    ]
