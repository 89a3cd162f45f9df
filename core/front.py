"""The front of a node: what clients see of who leads, and of nobody leading.

The front lives as long as the process, terms come and go beneath it. While this node leads, or has
a link to a node that does, publishes go on. Else they are held: sessions are not read, so that
nothing gathers here but what one read and the socket's buffers hold. Two seconds after the leader
was lost they go on all the same, and what is for a stream is refused (`core.api.leaderless`). What
was once given to a leader is never given to another. A node that has just started waits longer:
it may be the one that leads, and is loading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from core.cluster.gate import Gate, Stage
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.route.database_mesh import DatabaseMesh
    from core.server import Server

log = logging.getLogger("jetgate.front")

PATIENCE_S = 2.0
"""How long publishes are held at most after a leader was lost."""
START_S = 10.0
"""How long they are held at most after a start, for what has to be loaded first."""
_READ_S = 0.5
_SUCCESSION_S = 5.0
_ANSWERS_S = 0.5
_LOOK_S = 0.05
_SECOND = 1_000_000_000


class Refusals(Protocol):
    """What answers in the place of a leader (`core.api.leaderless`)."""

    has_led: bool
    on_learned: Callable[[], None]

    @property
    def is_known(self) -> bool:
        """Whether it is known what to refuse."""
        ...

    def start(self) -> None: ...
    def stop(self) -> None: ...
    async def close(self) -> None: ...


class Front:
    """Whether publishes go on, are held, or are refused.

    Args:
        server: whose sessions are held.
        mesh: the links to other nodes; None: this one is the only one, and holds publishes until
            it leads.

    Attributes:
        on_change: called when a leader is there, or gone.
        overtaken: set when another node leads since this one did: its term is over.
    """

    def __init__(self, server: Server, mesh: DatabaseMesh | None = None) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._server, self._hub, self._mesh = server, server.hub, mesh
        self._gate = Gate()
        self._stage = Stage.HELD
        self._refusals: Refusals | None = None
        self._epoch = 0
        self._has_term = False
        self._timer: asyncio.TimerHandle | None = None
        self._led = asyncio.Event()
        self.overtaken = asyncio.Event()
        if mesh is not None:
            mesh.on_leader = self._look

    @property
    def is_led(self) -> bool:
        """Whether somebody leads whom this node can reach; it may be this node."""
        return self._gate.is_open

    @property
    def leads(self) -> bool:
        """Whether this node leads, and serves."""
        return self._epoch > 0

    @property
    def has_peers(self) -> bool:
        """Whether there are other nodes, which could lead in the place of this one."""
        peers = () if self._mesh is None else self._mesh.nodes
        return any(not link.info.ldm for link in peers)

    def hold(self) -> None:
        """Hold publishes until somebody leads."""
        self._hub.hold_publishes()

    def refuse_by(self, refusals: Refusals) -> None:
        """Have these answer while nobody leads."""
        self._refusals = refusals
        refusals.on_learned = self._apply
        self._gate.expect(self._hub.clock.monotonic() + int(START_S * _SECOND))
        self._apply()

    # -- the leadership of this node ---------------------------------------------------------

    def win(self, epoch: int) -> None:
        """This node has the leadership, and begins to load what it leads."""
        if self._mesh is not None:
            self._mesh.overtake(epoch)

    def lead(self, epoch: int) -> None:
        """This node serves what it leads."""
        self._epoch, self._has_term = epoch, True
        self.overtaken.clear()
        if self._mesh is not None:
            self._mesh.lead(epoch)
        self._look()
        self._apply()  # another node may have led until now

    async def give_up(self) -> None:
        """This node will serve no more; return when peers send it no more publishes."""
        self._epoch = 0
        self._look()
        if self._mesh is not None:
            self._mesh.lead_no_more()
            await self._mesh.read(_READ_S)

    def retired(self) -> None:
        """Nothing here takes publishes any more: they may go to another node."""
        self._has_term = False
        self._look()
        self._apply()  # another node may lead already

    def released(self) -> None:
        """The leadership of this node is over, and its locks are free."""
        if self._mesh is not None:
            self._mesh.released()

    async def succeeded(self) -> None:
        """Return when another node leads, or none is left, or none does for too long.

        Clients of this node that were held publish through the other one first: they are closed
        when there was time for the answers.
        """
        led = spawn(self._led.wait(), name="succession")
        try:
            async with asyncio.timeout(_SUCCESSION_S):
                while self.has_peers and not led.done():
                    await asyncio.wait((led,), timeout=_LOOK_S)
        except TimeoutError:
            log.warning("no other node leads: clients have to wait for one")
        finally:
            await stop(led)
        if self.is_led:
            await asyncio.sleep(_ANSWERS_S)

    async def close(self) -> None:
        """Hold and refuse nothing any more."""
        self._stop_timer()
        if self._refusals is not None:
            await self._refusals.close()
            self._refusals = None

    # -- the stages --------------------------------------------------------------------------

    def _look(self) -> None:
        """See whether somebody leads; while there is a term of this node, nobody else does."""
        leader = None if self._mesh is None else self._mesh.leader
        if leader is not None and 0 < self._epoch < leader.info.leads:
            # What follows on this link is the other's; nothing of this node may be told any more.
            self._epoch = 0
            self.overtaken.set()
            assert self._mesh is not None, "it has a leader"
            self._mesh.lead_no_more()
        is_led = self._epoch > 0 if self._has_term else leader is not None
        is_alone = self._mesh is None and self._refusals is None
        patience = None if is_alone else int(PATIENCE_S * _SECOND)
        until = None if patience is None else self._hub.clock.monotonic() + patience
        if not (self._gate.found() if is_led else self._gate.lost(until)):
            if not is_led:
                self._apply()  # somebody may be about to lead
            return
        if is_led:
            self._led.set()
        else:
            self._led.clear()
            self._leave_old_publishes()
        self._apply()
        self.on_change()

    def _apply(self) -> None:
        self._stop_timer()
        now, refusals = self._hub.clock.monotonic(), self._refusals
        can_refuse = refusals is not None and refusals.is_known and not self._is_expected
        stage = self._gate.stage(now, can_refuse=can_refuse)
        if refusals is not None:
            if stage is Stage.OPEN:
                refusals.has_led = self.leads
                refusals.stop()
            elif not self._has_term:  # else the term answers what has reached it
                refusals.start()
        if stage is Stage.REFUSING and self._stage is not stage:
            log.warning("no leader is reachable: publishes are refused until there is one")
        self._stage = stage
        if stage is not Stage.HELD:
            self._hub.take_publishes()
            return
        self._hub.hold_publishes()
        if can_refuse and (until := self._gate.until) is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later((until - now) / _SECOND, self._apply)

    def _leave_old_publishes(self) -> None:
        """Do not read what clients have sent while this process stood still.

        They have given up by now, and may have published the same elsewhere since.
        """
        stood = 0 if self._mesh is None else self._mesh.stood_still
        if stood > PATIENCE_S * _SECOND:
            log.warning("stood still for %.1f s: clients have to connect anew", stood / _SECOND)
            self._server.close_clients("Stale Connection")

    @property
    def _is_expected(self) -> bool:
        """Whether a peer takes publishes, or is about to: nothing is refused that it stores."""
        mesh = self._mesh
        return mesh is not None and (mesh.is_beginning or mesh.leader is not None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
