"""Recovery after a storage outage: finds which commits in flight have succeeded.

The group committer, the one writer of a node, repeats it while storage is unreachable
(`core.jetstream.group_committer`). A *plan* is the change of one stream in a commit (`StreamPlan`).
A *head row* holds a stream's last sequence, counts and epoch.

The connection may have been lost during a COMMIT. The epochs are raised before the head rows are
read, so no COMMIT of the lost connection can succeed afterwards. The head rows then show the
outcome.

A fenced commit was refused by the epoch check: another node has led one of its streams since. The
head rows identify those streams (`find_fenced`); the others keep their leader.

The database itself may have lost commits, for example in a failover. Memory is then invalid: the
runtime ends, and the next one finds the lost sequences (`find_losses`).
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
    """Recover the leases after an outage; find out which commits in flight have succeeded.

    Returns the pairs of `work` that are committed, and those that are not.

    Each stream gets its new epoch. Left out of both results: streams that this node no longer
    leads, and streams that were loaded again since, as their rows contain the outcome.

    Args:
        renew: Raises the epochs (`LeaseSession.renew`).
        writer: Reads the head rows.
        registry: The streams in memory.
        work: The commits in flight: pairs of stream and plan.
        changes: Number of changes of the stream directory that this node knows.

    Raises:
        Fenced: Storage differs from the state that this node left.
        Unavailable: Storage still does not answer.
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
    """Return the numbers of the streams in a fenced commit that have a new leader.

    A fenced commit is one that the epoch check has refused. `work` has its streams and their
    changes.

    Raises:
        Fenced: A stream differs from the state that this node left, or no stream has a new leader.
        Unavailable: Storage does not answer.
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
    """Compare the consumers in storage with those in memory: no configuration change may be lost.

    Delivery and ack positions are not compared.

    Raises:
        Fenced: Storage has lost changes of consumers.
        Unavailable: Storage does not answer.
    """
    runners = {runner.stream: runner for runner in registry.streams.values()}
    known = {stream: runner.consumers.changes for stream, runner in runners.items()}
    found = await writer.consumer_changes(list(known))
    for stream, changes in known.items():
        if found.get(stream, changes) < changes:
            raise Fenced(f"stream {runners[stream].name} has lost changes of its consumers")


def _is_as_left(head: Head, machine: StreamMachine, plan: StreamPlan | None) -> bool:
    """Return whether a head row equals the state in memory, or the state after the plan in flight.

    More than the last sequence is compared: a restored database may have lost only removals.
    """
    left = (machine.last_seq, machine.last_ts, machine.msgs, machine.bytes, machine.first_seq)
    if (head.last_seq, head.last_ts, head.msgs, head.bytes, head.first_seq) == left:
        return True
    return plan is not None and _is_plan_of(head, plan)


def _is_committed(heads: Mapping[int, Head], stream: int, plan: StreamPlan) -> bool:
    """Return whether a stream's head row equals the state after `plan`.

    A plan that only moves positions of sources, changes the ledger of transactions, or sets due
    times of schedules leaves the head row unchanged. It counts as uncommitted: a second write of it
    changes nothing.
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
    """Load the rows of lease groups; log acknowledged sequences that storage has lost.

    A stream with losses continues behind the lost sequences, so that no sequence is assigned twice.
    The lost sequences look like deleted messages. Stored messages and consumer positions stay.

    Args:
        acknowledged: The sequences that earlier runtimes of this process have acknowledged.
        directory_store: Reads the rows.
        directory: The head row of the stream directory.
        groups: The lease groups to load.
        names: (account, name) of every stream in the database.

    Returns:
        The rows of `DirectoryStore.load`.

    Raises:
        Unavailable: Storage does not answer.
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
