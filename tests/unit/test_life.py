"""The order of the life of a process, whatever goes wrong in it."""

import asyncio
from typing import Any, cast

import pytest

from core import life
from core.cluster.leadership import Leadership
from core.errors import Fenced, OperatorError, Unavailable
from core.life import Candidacy, Life
from core.route.handshake import RouteInfo
from core.server import Server
from core.term import Term

LISTEN = ["listen", "say where"]
BEGIN = ["open", "hold publishes", *LISTEN, "prepare"]
TERM = ["campaign", "load", "take publishes", "connect remotes", "serve"]
LOST = ["step down", "hold publishes", "retire", "stop"]
GONE = ["leave", "close ports"]
END = [*GONE, *LOST, "disconnect", "close"]


class Happenings:
    """A server, its terms and a command that only note what they are told to do."""

    def __init__(self, *, leads: bool = True, faults: dict[str, Exception] | None = None) -> None:
        self.log: list[str] = []
        self.faults = dict(faults or {})
        self.leads = leads
        self.terms: list[Any] = []
        self.served = asyncio.Event()
        self.hub = self.clock = self
        self.links = None
        self.is_holding = False
        self.life = Life(cast(Server, self), self)

    def note(self, what: str) -> None:
        self.log.append(what)
        if (error := self.faults.pop(what, None)) is not None:
            raise error

    # the server

    def monotonic(self) -> int:
        return 0

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

    def take_publishes(self) -> None:
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

    async def serve(self, term: Term | None) -> None:
        assert (term is not None) == self.leads
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

    # terms

    async def campaign(self) -> Leadership:
        self.note("campaign")
        self.terms.append(FakeTerm(self))
        return cast(Leadership, self.terms[-1])

    async def load(self, leadership: Leadership) -> Term:
        self.note("load")
        self.life.front.claim({0: 1, 1: 1})
        return cast(Term, leadership)

    async def serving(self) -> None:
        """Return when all is served, once more."""
        await self.served.wait()
        self.served.clear()


class FakeTerm:
    """A leadership and its term."""

    failure: OperatorError | None = None
    groups = frozenset(range(2))

    def __init__(self, happenings: Happenings) -> None:
        self._happenings = happenings
        self.deposed = asyncio.Event()
        self.leadership = self.remotes = self.holdings = self

    def start(self) -> None:
        self._happenings.note("connect remotes")

    async def leave(self) -> None:
        self._happenings.note("hand over")
        self._happenings.life.front.claim({})

    async def retire(self) -> None:
        self._happenings.note("retire")

    async def stop(self) -> None:
        self._happenings.note("stop")

    async def release(self) -> None:
        self._happenings.note("release")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_RETRY_S", 0)


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

        assert log == [*BEGIN, *TERM, *END]

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


def test_memory_in_doubt_closes_no_connection_and_another_term_begins() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.terms[0].deposed.set()
        await happenings.serving()

        assert happenings.log == [*BEGIN, *TERM, *LOST, *TERM]
        happenings.life.stop()
        await run

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), ConnectionRefusedError("away")])
def test_storage_that_is_away_is_waited_for(error: Exception) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"campaign": error}))

        assert log == [*BEGIN, "campaign", *TERM, *END]

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), Fenced("another"), OSError("away")])
def test_who_cannot_load_what_it_leads_lets_go_of_it_and_keeps_its_clients(
    error: Exception,
) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"load": error}))

        assert log == [*BEGIN, "campaign", "load", "release", *TERM, *END]

    asyncio.run(scenario())


def test_a_failure_that_no_other_term_can_mend_ends_the_process() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.terms[0].failure = OperatorError("damaged")
        happenings.terms[0].deposed.set()
        with pytest.raises(OperatorError, match="damaged"):
            await run

        assert happenings.log[-1] == "close"

    asyncio.run(scenario())


def test_what_is_loaded_no_longer_matters_once_the_process_is_stopped() -> None:
    """The loading is cancelled, and over before anything else happens."""

    async def scenario() -> None:
        happenings, loading = Happenings(), asyncio.Event()

        async def load_for_ever(leadership: Leadership) -> Term:
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


def test_who_retires_keeps_its_connections_until_the_end_whoever_leads() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        await happenings.life.retire()
        happenings.terms[0].deposed.set()
        for _ in range(50):  # whatever follows from it would have happened by then
            await asyncio.sleep(0)
        retired = [*BEGIN, *TERM, "close ports", "retire"]
        assert happenings.log == retired

        happenings.life.stop()
        await run
        assert happenings.log[len(retired) :] == END

    asyncio.run(scenario())


def test_who_is_stopped_while_another_leads_ends_no_term() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        campaign = asyncio.Event()

        async def stand_by() -> Leadership:
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


class Peers:
    """The links of a process to others, which lead when they are told."""

    def __init__(self, happenings: Happenings) -> None:
        self.happenings = happenings
        self.on_leader = self.nobody
        self.peers = {"another": self}
        self.nodes = (self,)
        self.leaders: dict[int, Any] = {}
        self.has_let_go = asyncio.Event()

    def nobody(self) -> None:
        """Stands for whoever is to be told."""

    is_beginning = False
    stood_still = 0
    info = RouteInfo(server_id="another")

    def leave(self) -> None:
        self.happenings.note("tell of the stop")

    def claim(self, claims: dict[int, int], offers: object, *, is_asked: bool) -> None:
        self.happenings.note(f"tell of {len(claims)} groups")
        if not claims:
            self.has_let_go.set()

    async def read(self, within: float) -> None:
        self.happenings.note("wait for peers")


def test_who_is_stopped_hands_over_before_clients_have_to_leave() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        links: Any = Peers(happenings)
        happenings.links = links
        happenings.life = Life(cast(Server, happenings), happenings)
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.life.stop()
        await links.has_let_go.wait()
        links.leaders = {0: links, 1: links}
        links.on_leader()
        await run

        won = ["campaign", "load", "tell of 2 groups", "take publishes"]
        lost = [
            "tell of the stop",
            "hand over",
            "tell of 0 groups",
            "hold publishes",
            "take publishes",
        ]
        end = [*GONE, "step down", "tell of 0 groups", "wait for peers", "retire"]
        end += ["tell of 0 groups", "stop", "disconnect", "close"]
        assert happenings.log == [*BEGIN, *won, "connect remotes", "serve", *lost, *end]

    asyncio.run(scenario())
