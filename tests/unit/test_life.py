"""The order of the life of a process, whatever goes wrong in it."""

import asyncio
from typing import Any, cast

import pytest

from core import life
from core.errors import OperatorError, Unavailable
from core.life import Lead, Life
from core.server import Server
from core.term import Term

TERM = ["campaign", "listen", "connect remotes", "serve"]
END = ["close ports", "retire", "disconnect", "stop"]


class Happenings:
    """A server, its terms and a command that only note what they are told to do."""

    def __init__(self, *, leads: bool = True, faults: dict[str, Exception] | None = None) -> None:
        self.log: list[str] = []
        self.faults = dict(faults or {})
        self.leads = leads
        self.terms: list[Any] = []
        self.served = asyncio.Event()
        self.life = Life(cast(Server, self), self)

    def note(self, what: str) -> None:
        self.log.append(what)
        if (error := self.faults.pop(what, None)) is not None:
            raise error

    # the server

    async def listen(self) -> None:
        self.note("listen")

    def close_ports(self) -> None:
        self.note("close ports")

    async def disconnect(self) -> None:
        self.note("disconnect")

    # the command

    async def prepare(self) -> Lead | None:
        self.note("prepare")
        return self.lead if self.leads else None

    async def serve(self, term: Term | None) -> None:
        assert (term is not None) == self.leads
        self.note("serve")
        self.served.set()

    async def step_down(self, *, for_good: bool) -> None:
        self.note("step down for good" if for_good else "step down")

    async def close(self) -> None:
        self.note("close")

    def cannot_listen(self, error: OSError) -> Exception:
        return OperatorError("no port")

    # terms

    async def lead(self) -> Term:
        self.note("campaign")
        self.terms.append(FakeTerm(self))
        return cast(Term, self.terms[-1])

    async def serving(self) -> None:
        """Return when clients are served, once more."""
        await self.served.wait()
        self.served.clear()


class FakeTerm:
    """A leadership."""

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

        assert log == ["prepare", *TERM, "step down for good", *END, "close"]

    asyncio.run(scenario())


def test_a_server_without_jetstream() -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(leads=False))

        end = ["step down for good", "close ports", "disconnect", "close"]
        assert log == ["prepare", "listen", "serve", *end]

    asyncio.run(scenario())


@pytest.mark.parametrize("event", ["deposed", "lost"])
def test_a_lost_leadership_ends_its_connections_and_another_begins(event: str) -> None:
    async def scenario() -> None:
        happenings = Happenings()
        run = asyncio.create_task(happenings.life.run())
        await happenings.serving()
        getattr(happenings.terms[0], event).set()
        await happenings.serving()

        assert happenings.log == ["prepare", *TERM, "step down", *END, *TERM]
        happenings.life.stop()
        await run

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("away"), ConnectionRefusedError("away")])
def test_storage_that_is_away_is_waited_for(error: Exception) -> None:
    async def scenario() -> None:
        log = await stopped(Happenings(faults={"campaign": error}))

        failed = ["campaign", "step down", "close ports", "disconnect"]
        assert log[: 1 + len(failed) + len(TERM)] == ["prepare", *failed, *TERM]

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
        await asyncio.sleep(0.01)
        assert happenings.log == ["prepare", *TERM, "close ports", "retire"]

        happenings.life.stop()
        await run
        assert happenings.log[len(TERM) + 3 :][: 1 + len(END)] == ["step down for good", *END]

    asyncio.run(scenario())


def test_who_is_stopped_while_another_leads_serves_nobody() -> None:
    async def scenario() -> None:
        happenings = Happenings()
        campaign = asyncio.Event()

        async def stand_by() -> Term:
            campaign.set()
            await asyncio.Event().wait()
            raise AssertionError

        happenings.lead = stand_by  # type: ignore[method-assign]
        run = asyncio.create_task(happenings.life.run())
        await campaign.wait()
        happenings.life.stop()
        await run

        assert "listen" not in happenings.log
        assert happenings.log[-1] == "close"

    asyncio.run(scenario())
