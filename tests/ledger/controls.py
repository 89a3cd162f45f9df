"""Guards of the product, how each is taken out of a node, and what the checker must say then.

`python -m tests.ledger --control NAME`. Nothing in the product knows of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from core.errors import Fenced, OutcomeUnknown, Unavailable
from core.jetstream.lane import Lane
from core.jetstream.state_writer import StateWriter
from core.jetstream.trust import Trust
from core.node.lease_session import LeaseSession
from core.node.runtime import JetStreamRuntime
from core.route.database_mesh import DatabaseMesh
from core.route.handshake import RouteInfo
from core.route.link import RouteLink
from core.storage.database_time import DatabaseClock
from core.storage.postgres import connect, consumer_changes, directory_store
from core.storage.postgres.stream_log import PostgresLog
from core.stream import checks
from core.stream.dedup import DedupWindow
from tests.ledger.faults import Fault
from tests.ledger.run import Plan
from tests.support.faulty_node import acknowledge_early

_LINGER_S = 1.0
_DRAIN_S = 20.0  # what is broken need not come to an end


@dataclass(frozen=True, slots=True)
class Control:
    """A guard, and how its absence is seen.

    Attributes:
        remove: takes the guard out of this process.
        kinds: the violations of which at least one is expected.
        faults: what it takes to notice.
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
    """No message id is known."""
    _replace(DedupWindow, "find", lambda _self, _msg_id, _now: None)


def without_rivals() -> None:
    """Whatever last sequence a publish expects is the right one."""

    def agree(_draft: Any, _message: Any) -> None:
        return

    check = checks.expected_last_of_subject  # tuples have it: its code is replaced
    assert isinstance(check, FunctionType)
    check.__code__ = agree.__code__


def confirm_early() -> None:
    """Double acks are answered before they are stored."""
    sync = StateWriter.sync

    def early(self: StateWriter, consumer: Any, done: Callable[[], None]) -> None:
        done()
        sync(self, consumer, lambda: None)

    _replace(StateWriter, "sync", early)


def without_epochs() -> None:
    """Who has led believes to lead for ever: its trust does not end, and no fence stops it."""
    commit = PostgresLog.commit

    async def believe(self: PostgresLog, commits: Any) -> None:
        try:
            await commit(self, commits)
        except (Fenced, Unavailable, OutcomeUnknown):
            return

    _replace(PostgresLog, "commit", believe)
    _replace(LeaseSession, "trusted", lambda _self: True)
    _replace(LeaseSession, "_lead_on", lambda _self, _groups, _why: None)
    for of in (Lane, JetStreamRuntime):
        _replace(of, "_depose", lambda _self, _why: None)


def without_trust() -> None:
    """Who leads tells what its memory holds, whether its leadership is confirmed or not."""

    async def is_back(_self: Trust) -> bool:
        return True

    _replace(Trust, "allows", lambda _self, _go_on: True)
    _replace(Trust, "is_back", is_back)


def without_key_share() -> None:
    """A change of a consumer keeps no takeover waiting. It takes a while, else none is met."""
    guard, require = "for key share", directory_store._require
    for name in ("_ADD", "_SET", "_DROP"):
        _replace(consumer_changes, name, getattr(consumer_changes, name).replace(guard, ""))
    linger_in_changes()

    async def see(session: Any, stream: int, epoch: int, lock: str) -> None:
        await require(session, stream, epoch, lock.replace(guard, ""))

    _replace(directory_store, "_require", see)


def linger_in_changes() -> None:
    """Consumers are added a second before that is committed."""
    add = consumer_changes.add

    async def slowly(session: Any, row: Any, epoch: int) -> tuple[int, int]:
        made = await add(session, row, epoch)
        await asyncio.sleep(_LINGER_S)
        return made

    _replace(consumer_changes, "add", slowly)


def without_database_time() -> None:
    """Each node believes its own clock."""
    _replace(DatabaseClock, "now", lambda self: self._machine.now())


def _claim_of(link: RouteLink) -> int:
    """The newest claim of a peer; 0: it leads nothing."""
    return max((claim for claim, _ in link.info.claims), default=0)


def resend_handed() -> None:
    """What was given to a leader is given to the next one too: perhaps nobody stored it."""
    send, changed = RouteLink.send, DatabaseMesh.changed
    given: deque[tuple[int, bytes]] = deque(maxlen=5000)

    def note(self: RouteLink, lines: bytes, sent: int) -> None:
        if claim := _claim_of(self):
            given.append((claim, lines))
        send(self, lines, sent)

    def again(self: DatabaseMesh, link: RouteLink, before: RouteInfo) -> None:
        changed(self, link, before)
        if claim := _claim_of(link):
            former = [lines for before, lines in given if before < claim]
            for _ in former:
                given.popleft()
            for lines in former:
                link.send(lines, 1)
            self.hub.turn.arm()

    _replace(RouteLink, "send", note)
    _replace(DatabaseMesh, "changed", again)


def commit_asynchronously() -> None:
    """COMMIT is answered before its record is on the disk."""
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
        # Clients give up before they hear of a COMMIT that was one, and send again.
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
        # Who leads hears neither PostgreSQL nor its successor, whom most clients go to; its own
        # observer asks on.
        (Fault(2, "link-hold", 11.0, 0), Fault(2.1, "hold", 11.0, 0)),
        13,
        nodes=2,
    ),
    "no-key-share": Control(
        without_key_share,
        frozenset({"object"}),
        # The COMMIT of a change arrives when another node leads, which has not read it.
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
        # Who sends without ids has to be at the node that leads neither before nor after.
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
        # It leads on, and clients come to it when who leads since is killed: one of the others.
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
    """A run in which nodes miss a guard."""
    control = CONTROLS[name]
    return Plan(control.seconds, seed, control.nodes, control.faults, name, _DRAIN_S)
