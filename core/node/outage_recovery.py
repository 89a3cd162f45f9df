"""Recovery after a storage outage: the outcomes of the plans that were in flight.

The group committer repeats this while storage is away (`core.jetstream.group_committer`).

The connection may have been lost during a COMMIT. The epochs are raised before the head rows are
read, so no COMMIT of the lost connection can succeed afterwards. The head rows then show the
outcome.

A fenced commit was not made: another node has led one of its streams since. The heads identify
those streams (`find_fenced`); the others keep their leader.

The database itself may have gone back. Then memory is invalid: the runtime ends, and the next one
finds the losses (`find_losses`).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Container, Mapping

from core.errors import Fenced
from core.jetstream.group_committer import Work
from core.jetstream.registry import Registry
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import StreamPlan
from core.storage.acknowledged import Acknowledged
from core.storage.interface import ConsumerRow, DirectoryStore, Head, LogWriter, PurgeRow, StreamRow
from core.units import LeaseGroup

log = logging.getLogger(__name__)

_DIRECTORY = 0
"""Stream number of the stream directory's own head row."""


async def lead_again(
    renew: Callable[[], Awaitable[None]],
    writer: LogWriter,
    registry: Registry,
    work: Work,
    changes: int = 0,
) -> tuple[Work, Work]:
    """Recover the leases; return the committed and the uncommitted parts of `work`.

    Every stream gets its new epoch. Streams that are no longer led are left out, as are those
    loaded again since: their rows contain the outcome.

    Args:
        renew: Raises the epochs (`LeaseSession.renew`).
        writer: Reads the head rows.
        registry: The streams in memory.
        work: The plans in flight.
        changes: Number of changes of the stream directory that this node knows.

    Raises:
        Fenced: Storage differs from the state that this node left.
        Unavailable: Storage is still away.
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
    """Return the streams of a fenced commit that another node has led since, by number.

    Raises:
        Fenced: A stream differs from the state that this node left, or no stream has another epoch.
        Unavailable: Storage is away.
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
        raise Fenced("a commit was refused, and no other node leads its streams")
    return fenced


async def check_consumers(writer: LogWriter, registry: Registry) -> None:
    """Check that storage has every change of consumers that this node knows.

    Delivery and ack positions are not compared.

    Raises:
        Fenced: Storage has lost changes of consumers.
        Unavailable: Storage is away again.
    """
    runners = {runner.stream: runner for runner in registry.streams.values()}
    known = {stream: runner.consumers.changes for stream, runner in runners.items()}
    found = await writer.consumer_changes(list(known))
    for stream, changes in known.items():
        if found.get(stream, changes) < changes:
            raise Fenced(f"stream {runners[stream].name} has lost changes of its consumers")


def _is_as_left(head: Head, machine: StreamMachine, plan: StreamPlan | None) -> bool:
    """Return whether a head row is as memory has it, or as a plan in flight leaves it.

    More than the last sequence is compared: a database that went back may have lost only removals.
    """
    left = (machine.last_seq, machine.last_ts, machine.msgs, machine.bytes, machine.first_seq)
    if (head.last_seq, head.last_ts, head.msgs, head.bytes, head.first_seq) == left:
        return True
    return plan is not None and _is_plan_of(head, plan)


def _is_committed(heads: Mapping[int, Head], stream: int, plan: StreamPlan) -> bool:
    """Return whether a stream's head row is as a plan leaves it.

    A plan may only move positions of sources, change the ledger of transactions, or set due times
    of schedules. It leaves the head unchanged, and counts as uncommitted: written again, it changes
    nothing.
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
    groups: Collection[LeaseGroup],
    names: Container[tuple[str, str]],
) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
    """Load lease groups; log the acknowledged sequences that storage has lost.

    Streams continue behind their lost sequences, so that no sequence is assigned twice. Stored
    messages and positions of readers stay. A gap lies between, as if the messages had been deleted.

    Args:
        acknowledged: The sequences acknowledged by earlier runtimes of this process.
        directory_store: Storage.
        directory: The head row of the stream directory.
        groups: The lease groups to load.
        names: (account, name) of every stream in the database.

    Returns:
        The rows of `DirectoryStore.load`.

    Raises:
        Unavailable: Storage is away.
    """
    found = await directory_store.load(groups)
    losses = acknowledged.losses(directory, found[0], names)
    for loss in filter(acknowledged.count, losses):
        log.error("%s", loss.text)
    if raised := {loss.stream: loss.through for loss in losses if loss.through}:
        epochs = {row.stream: row.head.epoch for row in found[0]}
        await directory_store.raise_heads(
            {stream: (epochs[stream], s) for stream, s in raised.items()}
        )
        found = await directory_store.load(groups)
    return found
