"""The one life of a process that serves NATS, whatever command started it.

    open -> listen -> prepare -> session -> load -> serve -> end of a term -> ... -> leave -> close
                                    ^------- memory is in doubt ----|

Clients are accepted at once and stay as long as the process: terms come and go beneath them
(`core.front`). What they publish is held until there is somebody who can take it: this process, or
another one over the same database. A process without JetStream has nothing to lead. A command says
what differs (`Command`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import Fenced, Unavailable
from core.front import Front
from core.runtime.tasks import outcome, spawn, stop

if TYPE_CHECKING:  # a start without JetStream does not wait for what it takes to lead
    from core.cluster.leadership import Leadership
    from core.server import Server
    from core.term import Term

log = logging.getLogger("jetgate.life")

_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Candidacy:
    """How a process comes to lead.

    Attributes:
        campaign: waits for a session (`core.campaign`).
        load: loads what it finds free (`core.term.load`); what fails leaves the leadership.
    """

    campaign: Callable[[], Coroutine[Any, Any, Leadership]]
    load: Callable[[Leadership], Coroutine[Any, Any, Term]]


class Command(Protocol):
    """What a command adds to the life of its process."""

    async def open(self) -> bool:
        """Begin with what no storage is needed for; whether there will be JetStream.

        Raises OperatorError.
        """
        ...

    def listening(self) -> None:
        """Clients are accepted: called as soon as the ports are known."""
        ...

    async def prepare(self) -> Candidacy | None:
        """Make ready whatever lives as long as the process; None: without JetStream.

        Raises OperatorError.
        """
        ...

    async def serve(self, term: Term | None) -> None:
        """This process serves all it has from now on. Raises Unavailable to try again."""
        ...

    def step_down(self) -> None:
        """The term that `serve` was given is about to end."""
        ...

    async def leave(self) -> None:
        """End what clients use besides NATS; their connections are closed next."""
        ...

    async def close(self) -> None:
        """End what `open` and `prepare` began."""
        ...

    def cannot_listen(self, error: OSError) -> Exception:
        """Return what to raise for an address that cannot be had."""
        ...


class Life:
    """Runs a server for a command.

    Attributes:
        front: what clients see of who leads.
        term: what this process has in memory; None: it cannot lead now.
    """

    def __init__(self, server: Server, command: Command) -> None:
        self.front = Front(server, server.links)
        self.term: Term | None = None
        self._server = server
        self._command = command
        self._candidacy: Candidacy | None = None
        self._told = ""  # why it could not serve, when that was tried last
        self._ending = asyncio.Event()  # this term is the last
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Live until `stop`.

        Raises:
            OperatorError, ConfigError: the process cannot serve.
        """
        try:
            await _unless(self._ending, self._prepare())
            while not self._ending.is_set():
                await self._serve_once()
            await self._stopped.wait()
        finally:
            await self._leave()
            await self._command.close()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Have `run` close every connection and return."""
        self._ending.set()
        self._stopped.set()

    async def retire(self) -> None:
        """Accept nobody any more and lead no more; connections stay until `stop`.

        Another node leads when this returns, if there is one; else JetStream has ended.
        """
        self._ending.set()
        self._server.close_ports()
        if self.front.has_peers:
            await self._hand_over()
        elif self.term is not None:
            await self.term.retire()

    # -- serving -----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        if await self._command.open():
            self.front.hold()
        try:
            await self._server.listen()
        except OSError as error:
            raise self._command.cannot_listen(error) from error
        self._command.listening()
        self._candidacy = await self._command.prepare()

    async def _serve_once(self) -> None:
        """Wait to lead, serve, return when that is over."""
        is_over = True
        try:
            if await _unless(self._ending, self._start()):
                await self._until_over()
        except (Unavailable, Fenced) as error:
            if str(error) != self._told:
                log.warning("cannot serve: %s; trying again", error)
            self._told = str(error)
            is_over = False
        finally:
            if not self._stopped.is_set():
                await self._end_term()
        if not is_over:
            await _unless(self._ending, asyncio.sleep(_RETRY_S))

    async def _start(self) -> None:
        if self._candidacy is not None:
            term = await self._lead(self._candidacy)
            term.remotes.start()
        await self._command.serve(self.term)
        self._told = ""

    async def _lead(self, candidacy: Candidacy) -> Term:
        """Have a session, and load what is free.

        Raises:
            OperatorError: what is stored cannot be read.
            Unavailable: storage is away.
        """
        try:
            leadership = await candidacy.campaign()
            try:
                self.term = await candidacy.load(leadership)
            except BaseException:
                await leadership.release()
                raise
        except OSError as error:
            raise Unavailable(str(error)) from error
        return self.term

    async def _until_over(self) -> None:
        """Return when this process is to stop, or its memory is in doubt. Raises OperatorError."""
        ends, term = [self._stopped], self.term
        if term is not None:
            ends.append(term.deposed)
        waits = [spawn(event.wait(), name="end of a term") for event in ends]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        await stop(*waits)
        if term is not None and term.failure is not None:
            raise term.failure
        if self._ending.is_set():  # connections stay until then, whoever leads
            await self._stopped.wait()

    # -- ending ------------------------------------------------------------------------------

    async def _end_term(self) -> None:
        """End the term, if there is one; clients stay, and their publishes wait."""
        term, self.term = self.term, None
        if term is None:
            return
        self._command.step_down()
        self.front.claim({}, ending=term.holdings.groups)
        await self.front.settled()
        await term.retire()
        self.front.claim({})
        await term.stop()

    async def _hand_over(self) -> None:
        """Have other nodes lead what this one does; requests of clients are sent on to them."""
        self.front.leave()
        if self.term is not None:
            try:
                await self.term.leave()
            except Unavailable as error:
                log.warning("nothing is handed over: %s", error)
            await self.front.succeeded()
            await self.front.answered()

    async def _leave(self) -> None:
        """End everything that clients see; another node leads before that, if there is one."""
        if self.front.has_peers:
            await self._hand_over()
        await self._command.leave()
        self._server.close_ports()
        await self._end_term()
        await self.front.close()
        await self._server.disconnect()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work, but not longer than until an event; whether it was done."""
    task = spawn(outcome(work), name="start")
    over = spawn(event.wait(), name="end of a start")
    try:
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stop(task, over)
    if task.cancelled():
        return False
    if (error := task.result()) is not None:
        raise error
    return True
