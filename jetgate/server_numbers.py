"""The numbers of a server for /metrics: connections, streams, consumers and commits.

The HTTP gateway serves them but cannot read them itself, because it is only a client of the server.
"""

from dataclasses import dataclass, replace

import core
from core.jetstream.group_committer import COMMIT_BOUNDS, GroupCommitter
from core.jetstream.registry import Registry
from core.node.publish_gate import PublishGate
from core.node.runtime import JetStreamRuntime
from core.node.server import Server
from core.pubsub.server import Hub
from core.remote.remotes import Remotes
from core.runtime.clock import Clock
from core.runtime.stalls import StallWatch
from core.storage.health import StorageHealth
from core.units import NANOS_PER_SECOND
from gateway.monitoring.metrics import (
    ConsumerNumbers,
    Histogram,
    RemoteNumbers,
    Snapshot,
    StreamNumbers,
)

_DIRECTORY = 0


@dataclass(slots=True)
class Node:
    """The parts of a process from which the metrics are read.

    Attributes:
        hub: The NATS server's connections and accounts.
        health: State of PostgreSQL, as the node observes it.
        stalls: Counter of event loop stalls.
        clock: Clock of the process.
        gate: Holds publishes while streams have no leader.
        server: The NATS server.
        runtime: The streams in memory (`core.node.runtime`); None while the node cannot own any.
    """

    hub: Hub
    health: StorageHealth
    stalls: StallWatch
    clock: Clock
    gate: PublishGate
    server: Server
    runtime: JetStreamRuntime | None = None

    def trouble(self) -> str:
        """Return the reason why this node can store no message now; empty if it can."""
        trouble = self.health.trouble
        if self.gate.is_open:
            return trouble if self.server.owner_links.leads else ""
        away = f"storage is away: {trouble}" if trouble else ""
        return "; ".join(filter(None, ("no leader is reachable", away)))


def snapshot(node: Node) -> Snapshot:
    """Return the current numbers of the process, and of its streams if it has loaded any."""
    found, runtime, health = _of_process(node), node.runtime, node.health
    if runtime is None:
        return found
    since = health.last_commit
    return replace(
        found,
        is_leader=_DIRECTORY in runtime.ownership.owned,
        groups=len(runtime.ownership.owned),
        commit_age=(node.clock.monotonic() - since) / NANOS_PER_SECOND if since else None,
        refused=dict(runtime.committer.refused),
        unstored_copies=dict(runtime.registry.services.unstored_copies),
        streams=_streams(runtime.registry),
        consumers=_consumers(runtime.registry),
        remotes=_remotes(runtime.remotes),
        commits=runtime.committer.commits,
        commit_failures=runtime.committer.failures,
        commit_seconds=_commit_seconds(runtime.committer),
        rows_swept=runtime.janitor.rows,
    )


def _of_process(node: Node) -> Snapshot:
    hub, health = node.hub, node.health
    traffic = hub.totals()
    time = health.time
    return Snapshot(
        version=core.__version__,
        has_leader=node.gate.is_open,
        links=0 if node.server.links is None else len(node.server.links.peers),
        is_storage_up=health.is_up,
        outages=health.outages,
        outage_seconds=health.outage_seconds(),
        clock_offset=time.ahead if time.is_known else None,
        lost_sequences=health.acknowledged.lost,
        authentication_failures=hub.disconnect_log.authentication_failures,
        refused_connections=hub.descriptors.refused,
        connections=len(hub.sessions),
        subscriptions=sum(a.client_subscriptions for a in hub.accounts.values()),
        in_msgs=traffic.in_msgs,
        out_msgs=traffic.out_msgs,
        in_bytes=traffic.in_bytes,
        out_bytes=traffic.out_bytes,
        slow_consumers=hub.slow_consumers,
        loop_stalls=node.stalls.count,
    )


def _commit_seconds(committer: GroupCommitter) -> Histogram:
    return Histogram(COMMIT_BOUNDS, committer.commit_counts, committer.commit_ns / NANOS_PER_SECOND)


def _streams(registry: Registry) -> list[StreamNumbers]:
    return [
        StreamNumbers(
            runner.name,
            runner.machine.msgs,
            runner.machine.bytes,
            runner.log.first_seq,
            runner.machine.last_seq,
            len(runner.consumers),
        )
        for runner in registry.streams.values()
    ]


def _consumers(registry: Registry) -> list[ConsumerNumbers]:
    return [
        ConsumerNumbers(
            runner.name,
            consumer.name,
            max(consumer.machine.num_pending, 0),
            len(consumer.machine.pending),
            len(consumer.machine.pending.counts),
            len(consumer.machine.waiting),
        )
        for runner in registry.streams.values()
        for consumer in runner.consumers.values()
    ]


def _remotes(remotes: Remotes) -> list[RemoteNumbers]:
    return [
        RemoteNumbers(
            name,
            attached.line.connected,
            attached.rtt_ns / NANOS_PER_SECOND,
            attached.bridge.requests,
            attached.bridge.relays.messages,
        )
        for name, attached in sorted(remotes.attached.items())
    ]
