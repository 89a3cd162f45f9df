"""What a term leads: it brings lease groups in with their streams, and hands them over.

    gain:       locks, epochs -> rows -> streams in memory -> told to peers
    hand over:  told to peers -> what they had sent is stored -> streams out of memory -> locks free

The order is what loses nothing: peers hold publishes from the moment when a group has no leader
that they know of, so between two leaders nothing is sent, and who takes a group over reads what all
before it have stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from core.api.places import Leaders, Nowhere
from core.cluster.claims import Offered
from core.cluster.following import CatalogueFollower
from core.cluster.leadership import Leadership
from core.errors import ApiError, Unavailable
from core.jetstream.registry import Registry
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.transactions.transactions import Transactions
from core.recovery import find_losses
from core.runtime.tasks import outcome, spawn, stop
from core.storage.interface import Catalog, ConsumerRow, StreamRow

if TYPE_CHECKING:
    from core.storage.acknowledged import Acknowledged

log = logging.getLogger("jetgate.term")

_READERS = 3
_DRAIN_S = 1.0
"""How long a stream that is handed over has to store what it was given, in seconds."""


class Peers(Leaders, Protocol):
    """Who is told what this node leads (`core.front.Front`)."""

    def begin(self) -> None:
        """This node is about to serve more groups: their interest follows."""
        ...

    def claim(
        self,
        claims: Mapping[int, int],
        offers: Mapping[str, Collection[int]] | None = None,
        *,
        ending: Collection[int] = (),
        is_asked: bool = False,
    ) -> None:
        """This node serves these groups from now on, and no others."""
        ...

    def serves(self, is_serving: bool) -> None:
        """Requests are answered from now on, or no longer."""
        ...

    async def settled(self) -> None:
        """Return when peers send nothing more for what this node leads no longer."""
        ...

    on_offer: Offered
    on_overtaken: Callable[[frozenset[int]], None]
    on_unled: Callable[[], None]
    on_led: Callable[[frozenset[int]], None]


class Nobody(Nowhere):
    """Stands for peers where there are none."""

    def __init__(self) -> None:
        self.on_offer: Offered = lambda _name, _groups, _is_asked: None
        self.on_overtaken: Callable[[frozenset[int]], None] = lambda _groups: None
        self.on_unled: Callable[[], None] = lambda: None
        self.on_led: Callable[[frozenset[int]], None] = lambda _groups: None

    def begin(self) -> None:
        """Nobody is told."""

    def claim(
        self,
        claims: Mapping[int, int],
        offers: Mapping[str, Collection[int]] | None = None,
        *,
        ending: Collection[int] = (),
        is_asked: bool = False,
    ) -> None:
        """Nobody is told."""

    def serves(self, is_serving: bool) -> None:
        """Nobody is told."""

    async def settled(self) -> None:
        """Nobody sends anything."""


class Holdings:
    """The lease groups of one term.

    Args:
        leadership: takes them and gives them back.
        registry: gets their streams.
        transactions: goes on with theirs.
        catalog: storage.
        known: what this process knows of the streams of all nodes.
        peers: told what is led.
        check: raises OperatorError where this release cannot serve what is stored.

    Attributes:
        groups: those that are served.
        since: when each was taken over, nanoseconds since the Unix epoch.
        epoch: the catalogue's, as it was seen last.
        on_loaded: called with the streams of groups that are about to be served.
        on_gained: called with those that are.
        on_changed: called when other groups are served than before.
    """

    def __init__(
        self,
        leadership: Leadership,
        registry: Registry,
        transactions: Transactions,
        catalog: Catalog,
        known: CatalogueFollower,
        peers: Peers,
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self.groups: frozenset[int] = frozenset()
        self.since: dict[int, int] = {}
        self._leaving: frozenset[int] = frozenset()
        self.epoch = 0
        self.on_loaded: Callable[[list[StreamRunner]], Awaitable[None]]
        self.on_gained: Callable[[list[StreamRunner]], None]
        self.on_changed: Callable[[], None] = lambda: None
        self._leadership = leadership
        self._registry = registry
        self._transactions = transactions
        self._catalog = catalog
        self._known = known
        self._peers = peers
        self._check = check
        self._turn = asyncio.Lock()

    @property
    def _acknowledged(self) -> Acknowledged:
        return self._leadership.health.acknowledged

    def claims(self) -> dict[int, int]:
        """Return the claims of what is served."""
        led = self._leadership.claims
        return {group: led[group] for group in self.groups if group in led}

    # -- gain --------------------------------------------------------------------------------

    async def gain(self, groups: Collection[int]) -> frozenset[int]:
        """Take what is free of some groups, and serve it; return these.

        Raises:
            Unavailable: storage is away; groups that were taken are not served.
            OperatorError: the row of a stream is damaged.
        """
        async with self._turn:
            taken = await self._leadership.take(frozenset(groups) - self.groups)
            if taken:
                try:
                    runners = await self._load(taken)
                    await self.on_loaded(runners)
                except BaseException:
                    await self._let_free(taken)
                    raise
                self._begin(taken, runners)
            return taken

    async def _let_free(self, groups: frozenset[int]) -> None:
        """Lead groups no more whose streams could not be loaded, or not all."""
        for runner in self._led_with(groups):
            self._registry.let_go(runner)
        with contextlib.suppress(Unavailable):  # else the locks end with the session
            await self._leadership.give(groups)

    def _begin(self, groups: frozenset[int], runners: list[StreamRunner]) -> None:
        """Serve what is loaded."""
        self._peers.begin()
        now = self._registry.services.clock.now()
        self._set(self.groups | (groups & self._leadership.groups), now)
        for runner in runners:
            if runner.lease_group not in self.groups:
                self._registry.give_up(runner)  # lost meanwhile
        led = [runner for runner in runners if runner.lease_group in self.groups]
        for runner in led:
            runner.start()
        self._transactions.go_on(led)
        self.tell()
        self._registry.tell_led(led)
        self._registry.led_anew(groups)
        self.on_gained(led)

    async def _load(self, groups: frozenset[int]) -> list[StreamRunner]:
        """Bring the streams of groups into memory."""
        await self._check()
        await self._known.look()
        head = await self._catalog.head()
        self.epoch = max(self.epoch, head.epoch)
        names = {(each.account, each.name) for each in self._known.catalogue.all()}
        streams, consumers, purges = await find_losses(
            self._acknowledged, self._catalog, head, groups, names
        )
        by_stream: dict[int, list[ConsumerRow]] = {}
        for consumer in consumers:
            by_stream.setdefault(consumer.stream, []).append(consumer)
        shelves = {row.stream: row.shelf for row in streams}
        sweeper = self._registry.services.sweeper
        for stream in {purge.stream for purge in purges}:
            await sweeper.delete_purged(stream, shelves[stream], 0)  # which ids count shows later
        self._transactions.restore(await self._catalog.ledgers(groups))
        rows = [row for row in streams if row.account == self._registry.account.name]
        runners = await self._open(iter(rows), by_stream)
        for stream, shelf in await self._catalog.dropped_streams(groups):
            self._registry.services.janitor.drop(stream, shelf)
        return runners

    async def _open(
        self, rows: Iterator[StreamRow], consumers: Mapping[int, list[ConsumerRow]]
    ) -> list[StreamRunner]:
        """Bring streams back, as many at a time as there are sessions to read with."""
        found = []

        async def open_some() -> None:
            for row in rows:
                found.append(await self._registry.open(row, consumers.get(row.stream, [])))

        work = [spawn(outcome(open_some()), name="loading streams") for _ in range(_READERS)]
        try:
            for error in filter(None, await asyncio.gather(*work)):
                raise error
        finally:
            await stop(*work)
        return found

    # -- hand over ---------------------------------------------------------------------------

    async def hand_over(self, to: Mapping[str, Collection[int]], *, is_asked: bool = False) -> None:
        """Lead groups no more; `to`: these by the name of who is to lead next, "" for anybody.

        Clients wait meanwhile; what they had sent before is stored first. `is_asked`: whether a
        client wanted it.

        Raises Unavailable: the groups are given up, and their locks end with the session.
        """
        async with self._turn:
            groups = frozenset(group for some in to.values() for group in some) & self.groups
            if not groups:
                return
            self._leaving = groups
            self._set(self.groups - groups)
            self._peers.claim(self.claims(), ending=groups)
            for runner in self._led_with(groups):
                runner.untell()
            await self._peers.settled()
            with contextlib.suppress(TimeoutError):  # what is created then is refused
                async with asyncio.timeout(_DRAIN_S):
                    await self._registry.settled()
            runners = self._led_with(groups)
            await self._transactions.leave(runners)
            await asyncio.gather(*map(self._let_go, runners))
            self._leaving = frozenset()
            await self._leadership.give(groups)
            self._peers.claim(self.claims(), to, is_asked=is_asked)

    def _led_with(self, groups: Collection[int]) -> list[StreamRunner]:
        return [r for r in self._registry.streams.values() if r.lease_group in groups]

    def look(self) -> None:
        """Give up what is being handed over and another node leads already."""
        if gone := [group for group in self._leaving if self._peers.link(group) is not None]:
            self.lost(gone)

    async def _let_go(self, runner: StreamRunner) -> None:
        """Take a stream out of memory, once it has stored what it was given."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                await runner.drained()
                await self._registry.services.states.written(runner.consumers.values())
        except (ApiError, TimeoutError) as error:
            log.warning("stream %s leaves with publishes unanswered: %s", runner.name, error)
        self._registry.let_go(runner)

    def lost(self, groups: Iterable[int]) -> None:
        """Give groups up at once: another node leads them."""
        gone = frozenset(groups)
        self._set(self.groups - gone)
        for runner in self._led_with(gone):
            self._registry.give_up(runner)
        self.tell()

    def _set(self, groups: frozenset[int], now: int = 0) -> None:
        for group in self.groups - groups:
            del self.since[group]
        self.since.update(dict.fromkeys(groups - self.groups, now))
        self.groups = groups
        self.on_changed()

    def tell(self) -> None:
        """Tell peers what is served now."""
        self._peers.claim(self.claims())
