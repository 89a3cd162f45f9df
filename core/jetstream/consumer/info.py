"""A consumer as the API shows it, and as the state writer stores it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.consumer.groups import GroupWaiting
from core.consumer.state import encode
from core.model.consumer import ConsumerInfo, PriorityGroupState, SequenceInfo
from core.storage.interface import StateWrite

if TYPE_CHECKING:
    from core.jetstream.consumer.runner import ConsumerRunner


def consumer_info(runner: ConsumerRunner) -> ConsumerInfo:
    """What CONSUMER.INFO tells; acknowledgements that came are applied before."""
    machine, clock = runner.machine, runner.stream.shell.clock
    floor_cseq, floor_sseq = machine.pending.floor()
    redelivered = 0 if machine.max_deliver == 1 else len(machine.pending.counts)
    paused = runner.paused_until
    return ConsumerInfo(
        stream_name=runner.stream.name,
        name=runner.name,
        created=runner.created,
        config=runner.config,
        delivered=SequenceInfo(
            consumer_seq=machine.delivered_cseq,
            stream_seq=machine.delivered_sseq,
            last_active=runner.last_delivered or None,
        ),
        ack_floor=SequenceInfo(
            consumer_seq=floor_cseq,
            stream_seq=floor_sseq,
            last_active=runner.acks.last or None,
        ),
        num_ack_pending=len(machine.pending),
        num_redelivered=redelivered,
        num_waiting=len(machine.waiting),
        num_pending=max(machine.num_pending, 0),
        push_bound=machine.push is not None and machine.push.active,
        paused=paused > 0,
        pause_remaining=max(paused - clock.monotonic(), 0) if paused else 0,
        ts=clock.now(),
        priority_groups=_groups(runner),
    )


def _groups(runner: ConsumerRunner) -> tuple[PriorityGroupState, ...]:
    """The state of the first group; the reference shows no other."""
    waiting, clock = runner.machine.waiting, runner.stream.shell.clock
    if not isinstance(waiting, GroupWaiting):
        return ()
    pinned_at = clock.now() - clock.monotonic() + waiting.pinned_at if waiting.pin else 0
    group = runner.config.priority_groups[0]
    state = PriorityGroupState(group=group, pinned_client_id=waiting.pin, pinned_ts=pinned_at)
    return (state,)


def state_write(runner: ConsumerRunner) -> StateWrite:
    """What the state writer stores."""
    machine, clock = runner.machine, runner.stream.shell.clock
    return StateWrite(
        stream=runner.stream.stream,
        consumer=runner.consumer,
        epoch=runner.stream.epoch,
        state=encode(machine.state(clock.now() - clock.monotonic())),
        delivered_stream_seq=machine.delivered_sseq,
        ack_floor_stream_seq=machine.pending.floor()[1],
        ack_pending=len(machine.pending),
        redelivered=len(machine.pending.counts),
    )
