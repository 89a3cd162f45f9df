"""The publish gate of a node: it passes, holds or refuses publishes to streams.

The gate lives as long as the process, longer than a JetStream runtime. It passes publishes to the
streams of a lease group that this node or a linked peer owns. It holds the others
(`core.api.held`): it pauses reading from a session that sends one, so a node keeps no more of them
than one read and the buffers of the socket. It refuses them 2 s after the owner was lost
(`core.api.leaderless`), and at once if 16 MiB are held for the stream. A publish that was passed to
one owner is never passed to another. After a start the gate waits 10 s: this node may be the one
that has to load the streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from core.node.gate_stage import Stage, Stages
from core.node.ownership.state import DIRECTORY, Command, HoldTimeExceeded, State, Step
from core.runtime.subscribers import Subscribers
from core.runtime.tasks import spawn, stop
from core.units import NANOS_PER_SECOND, LeaseGroup

if TYPE_CHECKING:
    from core.node.server import Server
    from core.protocol.publish_hold import HoldRule

log = logging.getLogger(__name__)

HOLD_S = 2.0
"""Longest hold of publishes after an owner was lost, in seconds."""
START_S = 10.0
"""Longest hold of publishes after a start, in seconds: streams have to be loaded first."""
_SUCCESSION_S = 5.0
_ANSWERS_S = 0.5
_LOOK_S = 0.05


class Refusals(Protocol):
    """Answers publishes and API requests for streams without an owner by an error.

    Implemented by `core.api.leaderless.Leaderless`.
    """

    @property
    def learned(self) -> Subscribers[[]]:
        """Subscribers that are called when the streams become known or change."""
        ...

    @property
    def is_known(self) -> bool:
        """True once the streams of all nodes are known."""
        ...

    def groups(self) -> Collection[LeaseGroup]:
        """Return the lease groups that have streams, as far as known."""
        ...

    def answer(self, groups: Collection[LeaseGroup], *, requests: bool) -> None:
        """Refuse publishes to the streams of these lease groups, and of no others, from now on.

        `requests`: also refuse API requests.
        """
        ...

    def held(self, groups: Collection[LeaseGroup], refusable: Collection[LeaseGroup]) -> HoldRule:
        """Return the rule that decides which publishes wait for a leader of these groups' streams.

        Publishes to `refusable` groups are refused once too many bytes are held.
        """
        ...

    async def close(self) -> None: ...


class PublishGate:
    """Passes, holds or refuses the publishes to each stream. Life cycle: `hold`, then `close`.

    Args:
        server: The server of the sessions. Without links it is the only node, and publishes are
            held until it owns their streams.

    Attributes:
        changed: Called when `is_open` changes.
    """

    def __init__(self, server: Server) -> None:
        self.changed: Subscribers[[]] = Subscribers()
        self._server, self._hub = server, server.hub
        self._dispatch, self._owner_links, self._mesh = (
            server.ownership,
            server.owner_links,
            server.links,
        )
        self._stages = Stages()
        self._stage = Stage.HELD
        self._refusals: Refusals | None = None
        self._missing: frozenset[LeaseGroup] = frozenset()
        self._may_refuse = False
        self._has_runtime = False
        self._timer: asyncio.TimerHandle | None = None
        self._open = asyncio.Event()
        self._unsubscribe = [
            self._dispatch.subscribe(
                {
                    Command.HOLD: self._refresh_for,
                    Command.PASS: self._refresh_for,
                    Command.REFUSE: self._refuse,
                }
            )
        ]
        if self._mesh is not None:
            self._unsubscribe.append(self._mesh.reached.subscribe(self.refresh))

    @property
    def is_open(self) -> bool:
        """True if every lease group with streams has an owner: this node or a linked peer."""
        return self._stages.is_open

    def hold(self) -> None:
        """Hold publishes until every lease group has an owner. Called before the ports are open."""
        self._hub.hold_publishes()

    def refuse_by(self, refusals: Refusals) -> None:
        """Use `refusals` to answer for streams without an owner.

        Starts the time limit of the first hold: publishes are refused after 10 s without an owner.
        """
        self._refusals = refusals
        self._unsubscribe.append(refusals.learned.subscribe(self.refresh))
        self._stages.expect(self._hub.clock.monotonic() + int(START_S * NANOS_PER_SECOND))
        self.refresh()

    def serve(self, *, has_runtime: bool) -> None:
        """Record whether this node has a JetStream runtime.

        Without one the gate refuses API requests too; a runtime answers them itself.
        """
        self._has_runtime = has_runtime
        self._apply()

    async def await_successors(self) -> None:
        """Return once peers own all lease groups, or no peer is left, or after 5 s."""
        opened = spawn(self._open.wait(), name="succession")
        try:
            async with asyncio.timeout(_SUCCESSION_S):
                while self._owner_links.has_peers and not opened.done():
                    await asyncio.wait((opened,), timeout=_LOOK_S)
        except TimeoutError:
            log.warning("no other node leads: clients have to wait for one")
        finally:
            await stop(opened)

    async def await_answers(self) -> None:
        """Wait 0.5 s if the gate is open, so that clients can send their held publishes.

        The publishes then pass to the new owners before this node closes its connections.
        """
        if self.is_open:
            await asyncio.sleep(_ANSWERS_S)

    async def close(self) -> None:
        """Stop following ownership, and stop answering for streams without an owner."""
        self._stop_timer()
        while self._unsubscribe:
            self._unsubscribe.pop()()
        if self._refusals is not None:
            await self._refusals.close()
            self._refusals = None

    # -- the stages --------------------------------------------------------------------------

    def _refresh_for(self, _step: Step) -> None:
        self.refresh()

    def _refuse(self, step: Step) -> None:
        """Refuse publishes to the groups of a step, unless they have an owner in the meantime."""
        self._may_refuse = bool(step.groups & self._missing)
        self._apply()

    def unreachable(self) -> frozenset[LeaseGroup]:
        """Return the lease groups with streams that neither this node nor a linked peer owns.

        The group of the stream directory always counts: without its owner no stream can be created.
        """
        used = () if self._refusals is None else self._refusals.groups()
        return self._dispatch.ownership.unreachable((DIRECTORY, *used))

    def refresh(self) -> None:
        """Determine which lease groups with streams have no owner, and pass or hold publishes."""
        missing = self.unreachable()
        is_complete, is_more = not missing, bool(missing - self._missing)
        self._missing = missing
        is_alone = self._mesh is None and self._refusals is None
        patience = None if is_alone else int(HOLD_S * NANOS_PER_SECOND)
        until = None if patience is None else self._hub.clock.monotonic() + patience
        if is_more and not self._stages.is_open:
            self._stages.wait(until)
        if not (self._stages.found() if is_complete else self._stages.lost(until)):
            self._apply()
            return
        self._may_refuse = False
        if is_complete:
            self._open.set()
        else:
            self._open.clear()
            self._leave_old_publishes()
        self._apply()
        self.changed()

    def _apply(self) -> None:
        self._stop_timer()
        now, refusals = self._hub.clock.monotonic(), self._refusals
        can_refuse = (
            refusals is not None and refusals.is_known and not self._owner_links.is_beginning
        )
        stage = self._stages.stage(now, can_refuse=can_refuse)
        missing = frozenset() if stage is Stage.OPEN else self.unreachable()
        if stage is Stage.HELD:
            self._may_refuse = False
        elif stage is Stage.REFUSING and not self._may_refuse:
            self._dispatch.post(HoldTimeExceeded(missing))
            if self._may_refuse:
                return  # the REFUSE command has called this again
            stage = Stage.HELD
        self._enter(stage, missing, can_refuse=can_refuse)
        until = self._stages.until
        if stage is Stage.HELD and can_refuse and until is not None and now < until:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later((until - now) / NANOS_PER_SECOND, self._apply)

    def _enter(self, stage: Stage, missing: frozenset[LeaseGroup], *, can_refuse: bool) -> None:
        refusals = self._refusals
        # Publishes received for a group before its transfer may still be stored.
        refused = missing - self._dispatch.ownership.within(State.TRANSFERRING)
        if refusals is not None:
            refusals.answer(refused, requests=not self._has_runtime)
        if stage is Stage.REFUSING and self._stage is not stage:
            log.warning("no leader is reachable: publishes are refused until there is one")
        self._stage = stage
        if stage is not Stage.HELD:
            self._hub.resume_publishes()
        elif refusals is None or not refusals.is_known:
            self._hub.hold_publishes()
        else:
            self._hub.hold_publishes(refusals.held(missing, refused if can_refuse else ()))

    def _leave_old_publishes(self) -> None:
        """Close client connections if this process stood still for longer than 2 s.

        The clients have timed out by now, and may have published the same messages to another node.
        """
        stood = 0 if self._mesh is None else self._mesh.stood_still
        if stood > HOLD_S * NANOS_PER_SECOND:
            log.warning(
                "stood still for %.1f s: clients have to reconnect", stood / NANOS_PER_SECOND
            )
            self._server.close_clients("Stale Connection")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
