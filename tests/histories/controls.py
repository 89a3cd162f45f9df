"""Negative controls of the checker: runs without one safety mechanism (guard) of jetgate.

For each guard there is a function that removes it from a node, and the kinds of violations that
the checker must then find: `python -m tests.histories --control NAME`. The product itself has no
code for this.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from core.errors import Fenced, OutcomeUnknown, Unavailable
from core.jetstream.group_committer import GroupCommitter
from core.jetstream.state_writer import StateWriter
from core.jetstream.trust_gate import TrustGate
from core.node.lease_session import LeaseSession
from core.node.runtime import JetStreamRuntime
from core.route.database_mesh import DatabaseMesh
from core.route.handshake import RouteInfo
from core.route.link import RouteLink
from core.rules.stream.plans import checks
from core.rules.stream.state.dedup import DedupWindow
from core.storage.database_time import DatabaseClock
from core.storage.postgres import connect, consumer_changes, directory_store
from core.storage.postgres.stream_log import PostgresLog
from core.units import Epoch
from tests.histories.faults import Fault
from tests.histories.run import Plan
from tests.support.faulty_node import acknowledge_early

_LINGER_S = 1.0
_DRAIN_S = 20.0  # seconds; without a guard, some work may never end


@dataclass(frozen=True, slots=True)
class Control:
    """A run without a guard, and the violations that it must show.

    Attributes:
        remove: Removes the guard from the current process.
        kinds: Kinds of violations, of which at least one is expected.
        faults: The faults that lead to a violation.
        seconds: Duration of the run.
        nodes: Number of nodes.
    """

    remove: Callable[[], None]
    kinds: frozenset[str]
    faults: tuple[Fault, ...]
    seconds: float
    nodes: int = 1


def _replace(of: Any, name: str, new: Any) -> None:
    assert hasattr(of, name), f"{of} has no {name}: nothing would be taken out"
    setattr(of, name, new)


def without_dedup() -> None:
    """Turn deduplication off: treat every message id as new."""
    _replace(DedupWindow, "find", lambda _self, _msg_id, _now: None)


def without_rivals() -> None:
    """Ignore the expected last sequence (of a subject) in a publish."""

    def agree(_draft: Any, _message: Any) -> None:
        return

    check = checks.expected_last_of_subject  # tuples refer to the function: replace its code
    assert isinstance(check, FunctionType)
    check.__code__ = agree.__code__


def confirm_early() -> None:
    """Confirm acknowledgements (AckSync) before they are stored."""
    sync = StateWriter.sync

    def early(self: StateWriter, consumer: Any, done: Callable[[], None]) -> None:
        done()
        sync(self, consumer, lambda: None)

    _replace(StateWriter, "sync", early)


def without_epochs() -> None:
    """Let a former leader continue: its lease never expires for it, and commits are not fenced."""
    commit = PostgresLog.commit

    async def believe(self: PostgresLog, commits: Any) -> None:
        try:
            await commit(self, commits)
        except (Fenced, Unavailable, OutcomeUnknown):
            return

    _replace(PostgresLog, "commit", believe)
    _replace(LeaseSession, "trusted", lambda _self: True)
    _replace(LeaseSession, "_keep_only", lambda _self, _groups, _why: None)
    for of in (GroupCommitter, JetStreamRuntime):
        _replace(of, "_depose", lambda _self, _why: None)


def without_trust() -> None:
    """Let a leader answer from memory without a check that its lease is still valid."""

    async def wait_open(_self: TrustGate) -> bool:
        return True

    _replace(TrustGate, "allows", lambda _self, _go_on: True)
    _replace(TrustGate, "wait_open", wait_open)


def without_key_share() -> None:
    """Let changes of consumers run without the row lock that delays a change of leader.

    Also slow these changes down, so that a change of leader coincides with one.
    """
    guard, require = "for key share", directory_store._require
    for name in ("_ADD", "_SET", "_DROP"):
        _replace(consumer_changes, name, getattr(consumer_changes, name).replace(guard, ""))
    linger_in_changes()

    async def see(session: Any, stream: int, epoch: Epoch, lock: str) -> None:
        await require(session, stream, epoch, lock.replace(guard, ""))

    _replace(directory_store, "_require", see)


def linger_in_changes() -> None:
    """Make the transaction that adds a consumer wait for a second before its COMMIT."""
    add = consumer_changes.add

    async def slowly(session: Any, row: Any, epoch: Epoch) -> tuple[int, int]:
        made = await add(session, row, epoch)
        await asyncio.sleep(_LINGER_S)
        return made

    _replace(consumer_changes, "add", slowly)


def without_database_time() -> None:
    """Make each node use its own clock instead of that of PostgreSQL."""
    _replace(DatabaseClock, "now", lambda self: self._machine.now())


def _token_of(link: RouteLink) -> int:
    """Return the highest fencing token of a peer's lease groups; 0 if it owns none."""
    return max((claim for claim, _ in link.info.fencing_tokens), default=0)


def resend_handed() -> None:
    """Resend publishes, which were already forwarded to a former leader, to the new leader."""
    send, changed = RouteLink.send, DatabaseMesh.changed
    given: deque[tuple[int, bytes]] = deque(maxlen=5000)

    def note(self: RouteLink, lines: bytes, sent: int) -> None:
        if claim := _token_of(self):
            given.append((claim, lines))
        send(self, lines, sent)

    def again(self: DatabaseMesh, link: RouteLink, before: RouteInfo) -> None:
        changed(self, link, before)
        if claim := _token_of(link):
            former = [lines for before, lines in given if before < claim]
            for _ in former:
                given.popleft()
            for lines in former:
                link.send(lines, 1)
            self.hub.loop_tick.arm()

    _replace(RouteLink, "send", note)
    _replace(DatabaseMesh, "changed", again)


def commit_asynchronously() -> None:
    """Use `synchronous_commit = off`: PostgreSQL answers COMMIT before its WAL is on disk."""
    connect._COMMON["synchronous_commit"] = "off"
    _replace(connect, "_DURABLE", "select 1")


def _kills(*at: float) -> tuple[Fault, ...]:
    return tuple(Fault(each, "kill", 0.0, 0) for each in at)


CONTROLS: dict[str, Control] = {
    "early-acks": Control(
        acknowledge_early, frozenset({"lost", "disagreement"}), _kills(3, 6, 9), 12
    ),
    "no-dedup": Control(
        without_dedup,
        frozenset({"duplicate"}),
        # Clients stop waiting before the answer of a successful COMMIT, and send again.
        tuple(
            fault
            for begin in (2, 11, 20, 29, 38)
            for fault in (Fault(begin, "hold-to-node", 6.5, 0), *_kills(begin + 7))
        ),
        47,
    ),
    "no-rivals": Control(without_rivals, frozenset({"rival"}), (), 2),
    "early-confirmations": Control(
        confirm_early, frozenset({"redelivered", "floor"}), _kills(3, 6, 9, 12), 15
    ),
    "no-trust": Control(
        without_trust,
        frozenset({"stale", "floor"}),
        # The leader is cut off from PostgreSQL and from its successor, which most clients use; its
        # own observer keeps asking it.
        (Fault(2, "link-hold", 11.0, 0), Fault(2.1, "hold", 11.0, 0)),
        13,
        nodes=2,
    ),
    "no-key-share": Control(
        without_key_share,
        frozenset({"object"}),
        # The COMMIT of a change arrives after another node became leader without reading the
        # change.
        tuple(
            fault
            for begin in (2, 16, 30)
            for fault in (Fault(begin, "link-hold", 8.5, 0), Fault(begin + 0.1, "hold", 6.9, 0))
        ),
        39,
        nodes=2,
    ),
    "no-database-time": Control(
        without_database_time,
        frozenset({"time", "lifetime"}),
        (Fault(2, "skew", 0.0, 1), Fault(6, "kill", 0.0, 0)),
        10,
        nodes=2,
    ),
    "resent": Control(
        resend_handed,
        frozenset({"duplicate"}),
        # A publisher without ids must be at a node that is leader neither before nor after.
        _kills(*range(3, 27, 3)),
        28,
        nodes=3,
    ),
    "asynchronous-commit": Control(
        commit_asynchronously,
        frozenset({"lost", "disagreement", "stale", "floor", "redelivered"}),
        # With synchronous commits everything that was acknowledged is before the cut.
        tuple(Fault(at, "postgres-power", 0.0, 0) for at in (3, 6, 9)),
        12,
    ),
    "no-epochs": Control(
        without_epochs,
        frozenset({"lost", "disagreement"}),
        # The old leader continues, and clients reach it when the new leader, a standby, is killed.
        (
            Fault(3, "stop", 12.0, 0),
            Fault(17, "kill-standby", 0.0, 0),
            Fault(17.1, "kill-standby", 0.0, 1),
        ),
        24,
        nodes=3,
    ),
}


def controlled(name: str, seed: int) -> Plan:
    """Return the plan of the run without the guard of this name in `CONTROLS`."""
    control = CONTROLS[name]
    return Plan(control.seconds, seed, control.nodes, control.faults, name, _DRAIN_S)
