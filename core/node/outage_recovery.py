"""Leading again after storage was away: which of the plans under way were committed.

The lane asks again and again while storage is away (`core.jetstream.lane`).

The connection may have been lost while a COMMIT was under way. The epochs are bumped before the
head rows are read, so that no COMMIT of the lost connection can still land; what a head row says
then is the outcome.

A commit that was fenced was not made: another node has led one of its streams since. Which, the
heads tell (`find_fenced`); the others are led on.

The database itself may have gone back meanwhile. Then memory is worth nothing: the runtime ends,
and the next one finds out what was lost (`find_losses`).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Container, Mapping

from core.errors import Fenced
from core.jetstream.lane import Work
from core.jetstream.registry import Registry
from core.storage.acknowledged import Acknowledged
from core.storage.interface import ConsumerRow, DirectoryStore, Head, LogWriter, PurgeRow, StreamRow
from core.stream.machine import StreamMachine
from core.stream.plan import StreamPlan

log = logging.getLogger("jetgate.storage")

_DIRECTORY = 0
"""The stream number of the stream directory's own head row."""


async def lead_again(
    renew: Callable[[], Awaitable[None]],
    writer: LogWriter,
    registry: Registry,
    work: Work,
    changes: int = 0,
) -> tuple[Work, Work]:
    """Return what of `work` turns out committed, and what does not.

    Every stream takes its new epoch. Those that are not led any more are left out, also when they
    were given up and are led anew: what became of the plan is in what was loaded. `renew`: bumps
    the epochs (`LeaseSession.renew`). `changes`: how many the stream directory has had.

    Raises:
        Fenced: storage is not where this node left it.
        Unavailable: storage is still away.
    """
    await renew()
    runners = {runner.stream: runner for runner in registry.streams.values()}
    heads = await writer.heads([_DIRECTORY, *runners])
    plans = dict(work)
    committed: Work = []
    rest: Work = []
    for stream, runner in runners.items():
        plan = plans.get(runner)
        if plan is not None and _is_committed(heads, stream, plan):
            committed.append((runner, plan))
        elif stream not in heads:
            raise Fenced(f"stream {runner.name} is gone")
        elif not _is_as_left(heads[stream], runner.machine, plan):
            raise Fenced(f"stream {runner.name} is not as this node left it")
        elif plan is not None:
            rest.append((runner, plan))
        runner.epoch = heads[stream].epoch
    if heads[_DIRECTORY].last_seq < changes:
        raise Fenced("the stream directory has lost changes")
    return committed, rest


async def find_fenced(writer: LogWriter, work: Work) -> set[int]:
    """Return the streams of a commit that was fenced which another node has led since, by number.

    Raises:
        Fenced: a stream is not where this node left it.
        Unavailable: storage is away.
    """
    heads = await writer.heads([runner.stream for runner, _ in work])
    fenced = set()
    for runner, plan in work:
        head = heads.get(runner.stream)
        if head is None or head.epoch != runner.epoch:
            fenced.add(runner.stream)
        elif head.last_seq != plan.before:
            raise Fenced(f"stream {runner.stream} is not where this node left it")
    if not fenced:
        raise Fenced("a commit was refused, and nobody else leads its streams")
    return fenced


async def check_consumers(writer: LogWriter, registry: Registry) -> None:
    """See that storage has what the consumers of streams are, beside the places where they stand.

    Raises:
        Fenced: it has lost changes of them.
        Unavailable: storage is away again.
    """
    runners = {runner.stream: runner for runner in registry.streams.values()}
    known = {stream: runner.consumers.changes for stream, runner in runners.items()}
    found = await writer.consumer_changes(list(known))
    for stream, changes in known.items():
        if found.get(stream, changes) < changes:
            raise Fenced(f"stream {runners[stream].name} has lost changes of its consumers")


def _is_as_left(head: Head, machine: StreamMachine, plan: StreamPlan | None) -> bool:
    """Whether a head row has what memory has, or what a plan on its way makes of it.

    Not the last sequence alone: a database that went back may have lost nothing but removals.
    """
    left = (machine.last_seq, machine.last_ts, machine.msgs, machine.bytes, machine.first_seq)
    if (head.last_seq, head.last_ts, head.msgs, head.bytes, head.first_seq) == left:
        return True
    return plan is not None and _is_plan_of(head, plan)


def _is_committed(heads: Mapping[int, Head], stream: int, plan: StreamPlan) -> bool:
    """Whether a stream's head row is what a plan makes of it.

    A plan that only moves the positions of sources, changes the ledger of transactions, or says
    when schedules come due next, leaves the head as it is: written again, it changes nothing.
    """
    head = heads.get(stream)
    moves = plan.positions or plan.ledger or plan.firings
    if head is None or (moves and plan.last_seq == plan.before):
        return False
    return _is_plan_of(head, plan)


def _is_plan_of(head: Head, plan: StreamPlan) -> bool:
    return (head.last_seq, head.last_ts, head.msgs, head.bytes) == (
        plan.last_seq,
        plan.last_ts,
        plan.msgs,
        plan.nbytes,
    ) and head.first_seq == max(plan.first_seq, plan.purged_below)


async def find_losses(
    acknowledged: Acknowledged,
    directory_store: DirectoryStore,
    directory: Head,
    groups: Collection[int],
    names: Container[tuple[str, str]],
) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
    """Load lease groups; say what this process had acknowledged and storage does not have.

    Streams go on behind what they have lost, so that no sequence is given twice. What they still
    have keeps its place, and so do the positions of readers: between the two is a gap, as if the
    messages had been deleted.

    Args:
        acknowledged: what earlier terms of this process have left.
        directory_store: storage.
        directory: the head of the stream directory.
        groups: what is loaded.
        names: account and name of all streams that there are.

    Raises Unavailable: storage is away.
    """
    found = await directory_store.load(groups)
    losses = acknowledged.losses(directory, found[0], names)
    for loss in filter(acknowledged.count, losses):
        log.error("%s", loss.text)
    if raised := {loss.stream: loss.upto for loss in losses if loss.upto}:
        epochs = {row.stream: row.head.epoch for row in found[0]}
        await directory_store.raise_heads(
            {stream: (epochs[stream], s) for stream, s in raised.items()}
        )
        found = await directory_store.load(groups)
    return found
