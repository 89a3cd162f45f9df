"""Leading again after storage was away: which of the plans under way were committed.

The connection may have been lost while a COMMIT was under way. The epochs are bumped before the
head rows are read, so that no COMMIT of the lost connection can still land; what a head row says
then is the outcome.
"""

from collections.abc import Mapping

from core.cluster.leadership import Leadership
from core.errors import Fenced
from core.jetstream.lane import Runner
from core.jetstream.registry import Registry
from core.storage.interface import Head, LogWriter
from core.stream.plan import StreamPlan

Work = list[tuple[Runner, StreamPlan]]
"""Streams, each with the plan that was to be committed."""

CATALOGUE = 0
"""The stream number of the catalogue's own head row."""


async def lead_again(
    leadership: Leadership, writer: LogWriter, registry: Registry, work: Work
) -> tuple[Work, int]:
    """Return what of `work` turns out committed, and the catalogue's new epoch.

    Every stream takes its new epoch.

    Raises:
        Fenced: another node has led since, or a head row is not where this node left it.
        Unavailable: storage is still away.
    """
    await leadership.acquire()
    runners = {runner.stream: runner for runner in registry.streams.values()}
    heads = await writer.heads([CATALOGUE, *runners])
    plans = {runner.stream: plan for runner, plan in work}
    committed: Work = []
    for stream, runner in runners.items():
        plan = plans.get(stream)
        if plan is not None and _is_committed(heads, stream, plan):
            committed.append((runner, plan))
        elif stream not in heads:
            raise Fenced(f"stream {runner.name} is gone")
        elif heads[stream].last_seq != runner.machine.last_seq:
            raise Fenced(f"stream {runner.name} was written by another node")
        runner.epoch = heads[stream].epoch
    return committed, heads[CATALOGUE].epoch


def _is_committed(heads: Mapping[int, Head], stream: int, plan: StreamPlan) -> bool:
    """Whether a stream's head row is what a plan makes of it.

    A plan that only moves the positions of sources, changes the ledger of transactions, or says
    when schedules come due next, leaves the head as it is: written again, it changes nothing.
    """
    head = heads.get(stream)
    moves = plan.positions or plan.ledger or plan.firings
    if head is None or (moves and plan.last_seq == plan.before):
        return False
    return (head.last_seq, head.last_ts, head.msgs, head.bytes) == (
        plan.last_seq,
        plan.last_ts,
        plan.msgs,
        plan.nbytes,
    ) and head.first_seq == max(plan.first_seq, plan.purged_below)
