"""The CONSUMER.INFO of a consumer, and the row that stores its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.model.consumer import ConsumerInfo, PriorityGroupState, SequenceInfo
from core.rules.consumer.pull.priority_groups import GroupWaiting
from core.rules.consumer.state import encode
from core.storage.interface import StateWrite
from core.units import Epoch

if TYPE_CHECKING:
    from core.jetstream.consumer.acks import Consumer
    from core.model.cluster import ClusterInfo
    from core.rules.consumer.machine import ConsumerMachine
    from core.runtime.clock import Clock


def consumer_info(
    consumer: Consumer, stream: str, clock: Clock, cluster: ClusterInfo | None = None
) -> ConsumerInfo:
    """Return the CONSUMER.INFO of a consumer. The caller applies collected acks before the call.

    `cluster` has the leader and replicas of the consumer; None: this server has no peers.
    """
    machine = consumer.machine
    floor_cseq, floor_sseq = machine.pending.floor()
    redelivered = 0 if machine.max_deliver == 1 else len(machine.pending.counts)
    paused, now = consumer.paused_until > 0, clock.now()
    return ConsumerInfo(
        stream_name=stream,
        name=consumer.name,
        created=consumer.created,
        config=consumer.config,
        delivered=SequenceInfo(
            consumer_seq=machine.delivered_cseq,
            stream_seq=_shown_sseq(consumer),
            last_active=consumer.last_delivered or None,
        ),
        ack_floor=SequenceInfo(
            consumer_seq=floor_cseq,
            stream_seq=floor_sseq,
            last_active=consumer.last_acked or None,
        ),
        num_ack_pending=len(machine.pending),
        num_redelivered=redelivered,
        num_waiting=len(machine.waiting),
        num_pending=max(machine.num_pending, 0),
        cluster=cluster,
        push_bound=machine.push is not None and machine.push.active,
        paused=paused,
        pause_remaining=max((consumer.config.pause_until or 0) - now, 0) if paused else 0,
        ts=now,
        priority_groups=_groups(consumer, clock),
    )


def _shown_sseq(consumer: Consumer) -> int:
    """Return the stream sequence that CONSUMER.INFO shows as delivered.

    It is that of the last delivery. As in nats-server, a consumer in memory that started on an
    empty stream and has delivered no message shows the last sequence that it examined.
    """
    machine = consumer.machine
    if consumer.in_memory and not (machine.delivered_cseq or machine.delivered_sseq):
        return machine.scanned_sseq
    return machine.delivered_sseq


def _groups(consumer: Consumer, clock: Clock) -> tuple[PriorityGroupState, ...]:
    """Return the state of the first priority group; nats-server shows no other."""
    waiting = consumer.machine.waiting
    if not isinstance(waiting, GroupWaiting):
        return ()
    pinned_at = clock.now() - clock.monotonic() + waiting.pinned_at if waiting.pin else 0
    group = consumer.config.priority_groups[0]
    state = PriorityGroupState(group=group, pinned_client_id=waiting.pin, pinned_ts=pinned_at)
    return (state,)


def state_write(
    machine: ConsumerMachine, clock: Clock, *, stream: int, consumer: int, epoch: Epoch
) -> StateWrite:
    """Return the row that stores a consumer's state.

    `epoch` is the epoch of the consumer's stream: a row with an outdated epoch is not stored.
    """
    return StateWrite(
        stream=stream,
        consumer=consumer,
        epoch=epoch,
        state=encode(machine.state(clock.now() - clock.monotonic())),
        delivered_stream_seq=machine.delivered_sseq,
        ack_floor_stream_seq=machine.pending.floor()[1],
        ack_pending=len(machine.pending),
        redelivered=len(machine.pending.counts),
    )
