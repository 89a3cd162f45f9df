"""The front of a node: what clients see of who leads, and of nobody leading.

The front lives as long as the process, terms come and go beneath it. While a group with streams is
led by this node, or by one to which there is a link, what is for its streams goes on. Else it is
held (`core.api.held`): a session that brings some is not read on, so that nothing gathers here but
what one read and the socket's buffers hold. Two seconds after a leader was lost it goes on all the
same, and is refused (`core.api.leaderless`); so is at once what is published to a stream for which
16 MiB are held already. What was once given to a leader is never given to another. A node that has
just started waits longer: it may be the one that leads, and is loading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from core.cluster.claims import Offered
from core.cluster.gate import Gate, Stage
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.protocol.holding import Held
    from core.pubsub.route import Link
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
_CATALOGUE = 0


class Refusals(Protocol):
    """What answers in the place of leaders (`core.api.leaderless`)."""

    on_learned: Callable[[], None]

    @property
    def is_known(self) -> bool:
        """Whether it is known what to refuse."""
        ...

    def groups(self) -> Collection[int]:
        """Return the lease groups that have streams, as far as that is known."""
        ...

    def answer(self, groups: Collection[int], *, requests: bool) -> None:
        """Answer for the streams of these groups from now on, and for no others.

        `requests`: whether those of the API are answered too.
        """
        ...

    def held(self, groups: Collection[int], refusable: Collection[int]) -> Held:
        """Return which publishes have to wait for the streams of these groups.

        `refusable`: those of them that are refused once too much is kept of what waits.
        """
        ...

    async def close(self) -> None: ...


class Front:
    """Whether publishes go on, are held, or are refused, for each stream.

    Args:
        server: whose sessions are held.
        mesh: the links to other nodes; None: this one is the only one, and holds publishes until
            it leads.

    Attributes:
        on_change: called when all that has streams is led, or no longer is.
        on_offer: called with the name of a node, and the groups that a peer has released for it,
            and whether a client wanted that.
        on_overtaken: called with groups of this node that a peer leads since.
        on_unled: called when a peer may lead less than before.
        on_led: called with groups that a peer leads from now on.
    """

    def __init__(self, server: Server, mesh: DatabaseMesh | None = None) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._server, self._hub, self._mesh = server, server.hub, mesh
        self._gate = Gate()
        self._stage = Stage.HELD
        self._refusals: Refusals | None = None
        self._own: frozenset[int] = frozenset()
        self._ending: frozenset[int] = frozenset()
        self._missing: frozenset[int] = frozenset()
        self._has_term = False
        self._timer: asyncio.TimerHandle | None = None
        self._led = asyncio.Event()
        self.on_offer: Offered = lambda _name, _groups, _is_asked: None
        self.on_overtaken: Callable[[frozenset[int]], None] = lambda _groups: None
        self.on_unled: Callable[[], None] = lambda: None
        self.on_led: Callable[[frozenset[int]], None] = lambda _groups: None
        self._leaders: dict[int, Link] = {}
        if mesh is not None:
            mesh.on_leader = self._peers_changed
            mesh.on_offer = lambda *offer: self.on_offer(*offer)
            mesh.on_overtaken = lambda groups: self.on_overtaken(groups)

    @property
    def is_led(self) -> bool:
        """Whether all that has streams is led by whom this node can reach; it may be this node."""
        return self._gate.is_open

    @property
    def leads(self) -> bool:
        """Whether this node leads anything, and serves it."""
        return bool(self._own)

    def link(self, group: int) -> Link | None:
        """Return the link to the peer that leads a group; None: this node does, or nobody."""
        return None if self._mesh is None else self._mesh.leaders.get(group)

    def nodes(self) -> dict[str, Link]:
        """Return the links to the other nodes, by the names of these."""
        peers = () if self._mesh is None else self._mesh.nodes
        return {link.info.server_name: link for link in peers}

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
        refusals.on_learned = self.look
        self._gate.expect(self._hub.clock.monotonic() + int(START_S * _SECOND))
        self.look()

    # -- what this node leads ----------------------------------------------------------------

    def begin(self) -> None:
        """This node is about to serve more groups: their interest follows."""
        if self._mesh is not None:
            self._mesh.begin()

    def claim(
        self,
        claims: Mapping[int, int],
        offers: Mapping[str, Collection[int]] | None = None,
        *,
        ending: Collection[int] = (),
        is_asked: bool = False,
    ) -> None:
        """This node serves these groups from now on, and no others.

        `offers`: what it has released, by the name of the node that is to lead it. `is_asked`: a
        client wanted that. `ending`: groups for which it still stores what has reached it: that is
        not refused as well.
        """
        self._own, self._ending = frozenset(claims), frozenset(ending)
        if self._mesh is not None:
            self._mesh.claim(claims, offers or {}, is_asked=is_asked)
        self.look()

    def serves(self, is_serving: bool) -> None:
        """There is a term that answers requests, or no longer."""
        self._has_term = is_serving
        self._apply()

    async def settled(self) -> None:
        """Return when peers send nothing more for what this node leads no longer."""
        if self._mesh is not None:
            await self._mesh.read(_READ_S)

    async def succeeded(self) -> None:
        """Return when others lead all of it, or none is left, or that takes too long."""
        led = spawn(self._led.wait(), name="succession")
        try:
            async with asyncio.timeout(_SUCCESSION_S):
                while self.has_peers and not led.done():
                    await asyncio.wait((led,), timeout=_LOOK_S)
        except TimeoutError:
            log.warning("no other node leads: clients have to wait for one")
        finally:
            await stop(led)

    async def answered(self) -> None:
        """Return when clients of this node that were held had time to publish through a leader."""
        if self.is_led:
            await asyncio.sleep(_ANSWERS_S)

    async def close(self) -> None:
        """Hold and refuse nothing any more."""
        self._stop_timer()
        if self._refusals is not None:
            await self._refusals.close()
            self._refusals = None

    def leave(self) -> None:
        """Tell the other nodes that this one goes, so that none hands anything over to it."""
        if self._mesh is not None:
            self._mesh.leave()

    # -- the stages --------------------------------------------------------------------------

    def _peers_changed(self) -> None:
        self.look()
        self.on_unled()
        before, self._leaders = self._leaders, {} if self._mesh is None else {**self._mesh.leaders}
        led = (group for group, link in self._leaders.items() if before.get(group) is not link)
        if groups := frozenset(led):
            self.on_led(groups)

    def leaderless(self) -> frozenset[int]:
        """Return the groups with streams that nobody leads whom this node can reach.

        That of the catalogue counts: without its leader there is no JetStream.
        """
        led = self._own if self._mesh is None else self._own | self._mesh.leaders.keys()
        used = () if self._refusals is None else self._refusals.groups()
        return frozenset((_CATALOGUE, *used)) - led

    def look(self) -> None:
        """See whether all that has streams is led."""
        missing = self.leaderless()
        is_led, is_more = not missing, bool(missing - self._missing)
        self._missing = missing
        is_alone = self._mesh is None and self._refusals is None
        patience = None if is_alone else int(PATIENCE_S * _SECOND)
        until = None if patience is None else self._hub.clock.monotonic() + patience
        if is_more and not self._gate.is_open:
            self._gate.wait(until)
        if not (self._gate.found() if is_led else self._gate.lost(until)):
            self._apply()
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
        is_beginning = self._mesh is not None and self._mesh.is_beginning
        can_refuse = refusals is not None and refusals.is_known and not is_beginning
        stage = self._gate.stage(now, can_refuse=can_refuse)
        missing = frozenset() if stage is Stage.OPEN else self.leaderless()
        refused = missing - self._ending
        if refusals is not None:
            refusals.answer(refused, requests=not self._has_term)
        if stage is Stage.REFUSING and self._stage is not stage:
            log.warning("no leader is reachable: publishes are refused until there is one")
        self._stage = stage
        if stage is not Stage.HELD:
            self._hub.take_publishes()
            return
        if refusals is None or not refusals.is_known:
            self._hub.hold_publishes()
        else:
            self._hub.hold_publishes(refusals.held(missing, refused if can_refuse else ()))
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

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
