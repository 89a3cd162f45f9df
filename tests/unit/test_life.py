"""The order of the life of a process, whatever goes wrong in it."""

import asyncio
from typing import Any, cast

import pytest

from core import life
from core.cluster.leadership import Leadership
from core.errors import Fenced, OperatorError, Unavailable
from core.life import Candidacy, Life
from core.server import Server
from core.term import Term

LISTEN = ["listen", "say where"]
WIN = ["campaign", "hold publishes", *LISTEN]
LOAD = ["load", "take publishes", "connect remotes", "serve"]
TERM = [*WIN, *LOAD]
BEGIN = ["open", "prepare"]
END = ["close ports", "retire", "disconnect", "stop"]


class Happenings:
    """A server, its terms and a command that only note what they are told to do."""

    def __init__(
        self,
        *,
        leads: bool = True,
        listens_first: bool = False,
        faults: dict[str, Exception] | None = None,
    ) -> None:
        self.listens_first = listens_first
        self.log: list[str] = []
        self.faults = dict(faults or {})
        self.leads = leads
        self.terms: list[Any] = []
        self.served = asyncio.Event()
        self.hub = self
        self.is_listening = False
        self.life = Life(cast(Server, self), self)
        self.refusal: Exception = OperatorError("no port")

    def note(self, what: str) -> None:
        self.log.append(what)
        if (error := self.faults.pop(what, None)) is not None:
            raise error

    # the server

    async def listen(self) -> None:
        self.note("listen")
        self.is_listening = True

    def close_ports(self) -> None:
        self.note("close ports")

    async def disconnect(self) -> None:
        self.note("disconnect")
        self.is_listening = False

    def hold_publishes(self) -> None:
        self.note("hold publishes")

    def take_publishes(self) -> None:
        self.note("take publishes")

    # the command

    async def open(self) -> bool:
        self.note("open")
        return self.listens_first

    def listening(self) -> None:
        self.note("say where")

    async def prepare(self) -> Candidacy | None:
        self.note("prepare")
        return Candidacy(self.campaign, self.load) if self.leads else None

    async def serve(self, term: Term | None) -> None:
        assert (term is not None) == self.leads
        self.note("serve")
        self.served.set()

    async def step_down(self, *, for_good: bool) -> None:
        self.note("step down for good" if for_good else "step down")

    async def close(self) -> None:
        self.note("close")

    def cannot_listen(self, error: OSError) -> Exception:
        return self.refusal

    # terms

    async def campaign(self) -> Leadership:
        self.note("campaign")
        self.terms.append(FakeTerm(self))
        return cast(Leadership, self.terms[-1])

    async def load(self, leadership: Leadership) -> Term:
        self.note("load")
        return cast(Term, leadership)

    async def serving(self) -> None:
        """Return when clients are served, once more."""
        await self.served.wait()
        self.served.clear()


class FakeTerm:
    """A leadership and its term."""

    def __init__(self, happenings: Happenings) -> None:
        self._happenings = happenings
        self.deposed = asyncio.Event()
        self.lost = asyncio.Event()
        self.leadership = self.remotes = self

    def start(self) -> None:
        self._happenings.note("connect remotes")

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


def test_a_server_that_leads() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings())

        assert log == [*BEGIN, *TERM, "step down for good", *END, "close"]

    asyncio.run(scenario())


def test_a_server_without_jetstream() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(leads=False))

        end = ["step down for good", "close ports", "disconnect", "close"]
        assert log == [*BEGIN, *LISTEN, "take publishes", "serve", *end]

    asyncio.run(scenario())


def test_who_leads_for_certain_listens_first_and_holds_publishes_until_it_leads() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(listens_first=True))

        begin = ["open", "hold publishes", *LISTEN, "prepare", "campaign"]
        then = ["hold publishes", *LOAD]
        assert log == [*begin, *then, "step down for good", *END, "close"]

    asyncio.run(scenario())


def test_a_storage_that_cannot_be_prepared_ends_the_connections_that_were_accepted() -> None:
    async def scenario() -> None:
        happenings = Happenings(listens_first=True, faults={"prepare": OperatorError("no disk")})
        with pytest.raises(OperatorError, match="no disk"):
            await happenings.life.run()

        end = ["step down for good", "close ports", "disconnect", "close"]
        assert happenings.log == ["open", "hold publishes", *LISTEN, "prepare", *end]

    asyncio.run(scenario())


@pytest.mark.parametrize("event", ["deposed", "lost"])
def test_a_lost_leadership_ends_its_connections_and_another_begins(event: str) -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        getattr(happenings.terms[0], event).set()
        await happenings.serving()

        assert happenings.log == [*BEGIN, *TERM, "step down", *END, *TERM]
        happenings.life.stop()
        await run

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), ConnectionRefusedError("away")])
def test_storage_that_is_away_is_waited_for(error: Exception) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"campaign": error}))

        failed = ["campaign", "step down", "close ports", "disconnect"]
        assert log[: 2 + len(failed) + len(TERM)] == [*BEGIN, *failed, *TERM]

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), Fenced("another"), OSError("away")])
def test_who_cannot_load_what_it_leads_lets_go_of_it_and_of_its_clients(error: Exception) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"load": error}))

        failed = [*WIN, "load", "release", "step down", "close ports", "disconnect"]
        assert log[: 2 + len(failed) + len(TERM)] == [*BEGIN, *failed, *TERM]

    asyncio.run(scenario())


def test_who_may_wait_for_its_port_gives_the_leadership_back() -> None:
    async def scenario() -> None:
        happenings = Happenings(faults={"listen": OSError("taken")})
        happenings.refusal = Unavailable("no port yet")
        log = await stopped(happenings)

        failed = ["campaign", "hold publishes", "listen", "release", "step down"]
        failed += ["close ports", "disconnect"]
        assert log[: 2 + len(failed) + len(TERM)] == [*BEGIN, *failed, *TERM]

    asyncio.run(scenario())


@pytest.mark.parametrize("end", ["lost", "stopped"])
def test_what_is_loaded_no_longer_matters_once_the_leadership_is_over(end: str) -> None:
    """The loading is cancelled, and over before anything else happens."""

    async def scenario() -> None:
        happenings = Happenings()
        load, loading = happenings.load, asyncio.Event()

        async def load_for_ever(leadership: Leadership) -> Term:
            if loading.is_set():
                return await load(leadership)
            loading.set()
            try:
                await asyncio.Event().wait()
            finally:
                happenings.note("cancelled")
            raise AssertionError

        happenings.load = load_for_ever  # type: ignore[method-assign]
        run = asyncio.create_task(happenings.life.run())
        await loading.wait()
        failed = [*BEGIN, *WIN, "cancelled", "release"]
        if end == "lost":
            happenings.terms[0].lost.set()
            await happenings.serving()
            then = ["step down", "close ports", "disconnect", *TERM]
            assert happenings.log == [*failed, *then]
        happenings.life.stop()
        await run
        assert happenings.log[: len(failed)] == failed
        assert "release" not in happenings.log[len(failed) :]
        assert happenings.log[-1] == "close"

    asyncio.run(scenario())


def test_a_port_that_cannot_be_had_ends_the_process() -> None:
    async def scenario() -> None:
        happenings = Happenings(faults={"listen": OSError("in use")})
        with pytest.raises(OperatorError, match="no port"):
            await happenings.life.run()

        assert "serve" not in happenings.log
        assert happenings.log[-1] == "close"

    asyncio.run(scenario())


def test_a_port_that_was_ours_is_waited_for() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        happenings.faults["listen"] = OSError("in use")
        happenings.terms[0].deposed.set()
        await happenings.serving()

        assert happenings.log.count("campaign") == happenings.log.count("listen") == 3
        happenings.life.stop()
        await run

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
        assert happenings.log == [*BEGIN, *TERM, "close ports", "retire"]

        happenings.life.stop()
        await run
        assert happenings.log[len(BEGIN) + len(TERM) + 2 :][: 1 + len(END)] == [
            "step down for good",
            *END,
        ]

    asyncio.run(scenario())


def test_who_is_stopped_while_another_leads_serves_nobody() -> None:
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

        assert "listen" not in happenings.log
        assert happenings.log[-1] == "close"

    asyncio.run(scenario())
