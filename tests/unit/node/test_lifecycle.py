"""The order of the life of a process, whatever goes wrong in it."""

# Subject: leadership

import asyncio
from typing import Any, cast

import pytest

from core import retry
from core.errors import Fenced, OperatorError, Unavailable
from core.node.lease_session import LeaseSession
from core.node.lifecycle import Candidacy, Lifecycle
from core.node.owner_links import OwnerLinks
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import Command, Step, TransferRequested
from core.node.runtime import JetStreamRuntime
from core.node.server import Server
from core.route.handshake import RouteInfo
from core.runtime.subscribers import Subscribers
from core.units import Nanos
from tests.support.lease_groups import by_group, lease_groups
from tests.support.ownership import own, transfer

LISTEN = ["listen", "say where"]
BEGIN = ["open", "hold publishes", *LISTEN, "prepare"]
RUNTIME = ["campaign", "load", "take publishes", "connect remotes", "serve"]
LOST = ["step down", "hold publishes", "retire", "stop"]
GONE = ["leave", "close ports"]
END = [*GONE, *LOST, "disconnect", "close"]


class Happenings:
    """A server, its runtimes and a command that only note what they are told to do."""

    def __init__(
        self,
        *,
        leads: bool = True,
        faults: dict[str, Exception] | None = None,
        links: Any = None,
    ) -> None:
        self.log: list[str] = []
        self.faults = dict(faults or {})
        self.leads = leads
        self.runtimes: list[Any] = []
        self.served = asyncio.Event()
        self.hub = self.clock = self
        self.links = links
        self.ownership: Dispatch[Any] = Dispatch()
        self.owner_links = OwnerLinks(self.ownership, links)
        self.is_holding = False
        self.life = Lifecycle(cast(Server, self), self)

    def note(self, what: str) -> None:
        self.log.append(what)
        if (error := self.faults.pop(what, None)) is not None:
            raise error

    # the server

    def monotonic(self) -> Nanos:
        return Nanos(0)

    async def listen(self) -> None:
        self.note("listen")

    def close_ports(self) -> None:
        self.note("close ports")

    async def disconnect(self) -> None:
        self.note("disconnect")

    def hold_publishes(self) -> None:
        if not self.is_holding:
            self.is_holding = True
            self.note("hold publishes")

    def resume_publishes(self) -> None:
        if self.is_holding:
            self.is_holding = False
            self.note("take publishes")

    # the command

    async def open(self) -> bool:
        self.note("open")
        return self.leads

    def listening(self) -> None:
        self.note("say where")

    async def prepare(self) -> Candidacy | None:
        self.note("prepare")
        return Candidacy(self.campaign, self.load) if self.leads else None

    async def serve(self, runtime: JetStreamRuntime | None) -> None:
        assert (runtime is not None) == self.leads
        self.note("serve")
        self.served.set()

    def step_down(self) -> None:
        self.note("step down")

    async def leave(self) -> None:
        self.note("leave")

    async def close(self) -> None:
        self.note("close")

    def cannot_listen(self, error: OSError) -> Exception:
        return OperatorError("no port")

    # runtimes

    async def campaign(self) -> LeaseSession:
        self.note("campaign")
        self.runtimes.append(FakeRuntime(self))
        return cast(LeaseSession, self.runtimes[-1])

    async def load(self, leases: LeaseSession) -> JetStreamRuntime:
        self.note("load")
        own(self.ownership, by_group({0: 1, 1: 1}))
        return cast(JetStreamRuntime, leases)

    async def serving(self) -> None:
        """Return when all is served, once more."""
        await self.served.wait()
        self.served.clear()


class FakeRuntime:
    """A lease session and its runtime."""

    failure: OperatorError | None = None

    def __init__(self, happenings: Happenings) -> None:
        self._happenings = happenings
        self.deposed = asyncio.Event()
        self.remotes = self

    def start(self) -> None:
        self._happenings.note("connect remotes")

    async def leave(self) -> None:
        self._happenings.note("hand over")
        transfer(self._happenings.ownership, {"": lease_groups(0, 1)})

    async def withdraw(self) -> None:
        dispatch = self._happenings.ownership
        dispatch.post(TransferRequested({"": dispatch.ownership.owned}))
        await self._happenings.owner_links.drained()

    async def retire(self) -> None:
        self._happenings.note("retire")

    async def stop(self) -> None:
        own(self._happenings.ownership, {})
        self._happenings.note("stop")

    async def release(self) -> None:
        self._happenings.note("release")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "START_S", 0)


async def stopped(happenings: Happenings) -> list[str]:
    """Let it serve, stop it, and return what happened."""
    run = asyncio.create_task(happenings.life.run())
    await happenings.serving()
    happenings.life.stop()
    await run
    return happenings.log


def test_clients_are_accepted_first_and_held_until_this_process_leads() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings())

        assert log == [*BEGIN, *RUNTIME, *END]

    asyncio.run(scenario())


def test_a_server_without_jetstream_holds_nothing() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(leads=False))

        assert log == ["open", *LISTEN, "prepare", "serve", *GONE, "disconnect", "close"]

    asyncio.run(scenario())


def test_a_storage_that_cannot_be_prepared_ends_the_connections_that_were_accepted() -> None:
    async def scenario() -> None:
        happenings = Happenings(faults={"prepare": OperatorError("no disk")})
        with pytest.raises(OperatorError, match="no disk"):
            await happenings.life.run()

        assert happenings.log == [*BEGIN, *GONE, "disconnect", "close"]

    asyncio.run(scenario())


def test_memory_in_doubt_closes_no_connection_and_another_runtime_begins() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.runtimes[0].deposed.set()
        await happenings.serving()

        assert happenings.log == [*BEGIN, *RUNTIME, *LOST, *RUNTIME]
        happenings.life.stop()
        await run

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), ConnectionRefusedError("away")])
def test_storage_that_is_away_is_waited_for(error: Exception) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"campaign": error}))

        assert log == [*BEGIN, "campaign", *RUNTIME, *END]

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), Fenced("another"), OSError("away")])
def test_a_node_that_cannot_load_its_groups_releases_them_and_keeps_its_clients(
    error: Exception,
) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"load": error}))

        assert log == [*BEGIN, "campaign", "load", "release", *RUNTIME, *END]

    asyncio.run(scenario())


def test_a_failure_that_no_other_runtime_can_mend_ends_the_process() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.runtimes[0].failure = OperatorError("damaged")
        happenings.runtimes[0].deposed.set()
        with pytest.raises(OperatorError, match="damaged"):
            await run

        assert happenings.log[-1] == "close"

    asyncio.run(scenario())


def test_loading_does_not_matter_once_the_process_is_stopped() -> None:
    """The loading is cancelled, and over before anything else happens."""

    async def scenario() -> None:
        happenings, loading = Happenings(), asyncio.Event()

        async def load_for_ever(leases: LeaseSession) -> JetStreamRuntime:
            loading.set()
            try:
                await asyncio.Event().wait()
            finally:
                happenings.note("cancelled")
            raise AssertionError

        happenings.load = load_for_ever  # type: ignore[method-assign]
        run = asyncio.create_task(happenings.life.run())
        await loading.wait()
        happenings.life.stop()
        await run
        failed = [*BEGIN, "campaign", "cancelled", "release"]
        assert happenings.log == [*failed, *GONE, "disconnect", "close"]

    asyncio.run(scenario())


def test_a_port_that_cannot_be_had_ends_the_process() -> None:
    async def scenario() -> None:
        happenings = Happenings(faults={"listen": OSError("in use")})
        with pytest.raises(OperatorError, match="no port"):
            await happenings.life.run()

        assert "prepare" not in happenings.log
        assert happenings.log[-1] == "close"

    asyncio.run(scenario())


def test_a_retiring_node_keeps_its_connections_until_the_end() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        await happenings.life.retire()
        happenings.runtimes[0].deposed.set()
        for _ in range(50):  # whatever follows from it would have happened by then
            await asyncio.sleep(0)
        retired = [*BEGIN, *RUNTIME, "close ports", "retire"]
        assert happenings.log == retired

        happenings.life.stop()
        await run
        assert happenings.log[len(retired) :] == END

    asyncio.run(scenario())


def test_stopping_a_follower_ends_no_runtime() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        campaign = asyncio.Event()

        async def stand_by() -> LeaseSession:
            campaign.set()
            await asyncio.Event().wait()
            raise AssertionError

        happenings.campaign = stand_by  # type: ignore[method-assign]
        run = asyncio.create_task(happenings.life.run())
        await campaign.wait()
        happenings.life.stop()
        await run

        assert happenings.log == [*BEGIN, *GONE, "disconnect", "close"]

    asyncio.run(scenario())


class Links:
    """The links of a process to a peer."""

    def __init__(self) -> None:
        self.happenings: Happenings
        self.reached: Subscribers[[]] = Subscribers()
        self.nodes = (self,)
        self.has_released = asyncio.Event()

    def announced(self, _step: Step) -> None:
        owned = self.happenings.ownership.ownership.owned
        self.happenings.note(f"tell of {len(owned)} groups")
        if not owned:
            self.has_released.set()

    is_beginning = False
    stood_still = 0
    info = RouteInfo(server_id="another")

    def leave(self) -> None:
        self.happenings.note("tell of the stop")

    async def read(self, within: float) -> None:
        self.happenings.note("wait for peers")


def test_a_stopping_node_transfers_its_groups_before_it_disconnects_clients() -> None:
    async def scenario() -> None:
        links = Links()
        links.happenings = happenings = Happenings(links=links)
        happenings.ownership.subscribe({Command.ANNOUNCE: links.announced})
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.life.stop()
        await links.has_released.wait()
        happenings.ownership.peer_announced(links, by_group({0: 2, 1: 2}))
        await run

        won = ["campaign", "load", "tell of 2 groups", "take publishes"]
        lost = [
            "tell of the stop",
            "hand over",
            "tell of 0 groups",
            "hold publishes",
            "tell of 0 groups",
            "take publishes",
        ]
        end = [*GONE, "step down", "wait for peers", "retire", "stop", "disconnect", "close"]
        assert happenings.log == [*BEGIN, *won, "connect remotes", "serve", *lost, *end]

    asyncio.run(scenario())
