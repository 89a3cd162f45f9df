"""The life cycle of a process that serves NATS, for every command.

    open -> listen -> prepare -> session -> load -> serve -> end of runtime -> ... -> leave -> close
                                    ^---- memory may differ from storage ----|

Clients are accepted at once, and their connections last as long as the process; a JetStream runtime
may be loaded and ended many times. Publishes are held until their stream has an owner
(`core.node.publish_gate`): this process, or another one over the same database. A process without
JetStream owns no stream. The protocol `Command` has the steps in which commands differ.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core import retry
from core.errors import Fenced, Unavailable
from core.node.publish_gate import PublishGate
from core.runtime.tasks import outcome, spawn, stop

if TYPE_CHECKING:  # a start without JetStream does not wait for the imports of a leader
    from core.node.lease_session import LeaseSession
    from core.node.runtime import JetStreamRuntime
    from core.node.server import Server

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The functions with which a process opens a lease session and loads streams.

    Attributes:
        campaign: Opens a lease session; waits until PostgreSQL answers (`core.node.campaign`).
        load: Loads the free lease groups (`core.node.runtime.load`). If it fails, the caller
            releases the lease session.
    """

    campaign: Callable[[], Coroutine[Any, Any, LeaseSession]]
    load: Callable[[LeaseSession], Coroutine[Any, Any, JetStreamRuntime]]


class Command(Protocol):
    """The steps of `Lifecycle` that each command of the shell, such as `jetgate serve`, implements.

    They are called in this order: `open`, `listening`, `prepare`, then `serve` and `step_down` for
    each runtime (`core.node.runtime`: the loaded streams), and at the end `leave` and `close`.
    """

    async def open(self) -> bool:
        """Start the services that need no storage; return whether the process serves JetStream.

        Raises OperatorError if the process cannot be started with its settings.
        """
        ...

    def listening(self) -> None:
        """Called as soon as the client ports are open."""
        ...

    async def prepare(self) -> Candidacy | None:
        """Prepare the JetStream parts that live as long as the process.

        Returns the functions that load streams; None without JetStream. Raises OperatorError if the
        process cannot be started with its settings.
        """
        ...

    async def serve(self, runtime: JetStreamRuntime | None) -> None:
        """Use a runtime that has just been loaded, for example for HTTP and monitoring.

        `runtime` is None if the process does not serve JetStream. Raises Unavailable if storage
        does not answer: the caller then loads and calls again.
        """
        ...

    def step_down(self) -> None:
        """Stop using the runtime that `serve` has received; the caller ends it next."""
        ...

    async def leave(self) -> None:
        """End the services besides NATS, such as HTTP; client connections are closed next."""
        ...

    async def close(self) -> None:
        """Close everything that `open` and `prepare` have started."""
        ...

    def cannot_listen(self, error: OSError) -> Exception:
        """Return the exception to raise if an address cannot be bound; `error` is the cause."""
        ...


class Lifecycle:
    """Runs a server and its JetStream runtimes for a command.

    `run` returns after `stop`; `retire` may be called before, to leave without closing connections.

    Attributes:
        gate: Holds, refuses or passes publishes.
        runtime: JetStream in memory; None while this process does not serve JetStream.
    """

    def __init__(self, server: Server, command: Command) -> None:
        self.gate = PublishGate(server)
        self.runtime: JetStreamRuntime | None = None
        self._server = server
        self._command = command
        self._candidacy: Candidacy | None = None
        self._logged_failure = ""  # reason of the last failure to serve; empty if there is none
        self._must_end = asyncio.Event()  # the present runtime is the last
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Start the process, serve, and return after `stop`.

        Raises:
            OperatorError: The process cannot serve, for example because of a damaged row.
            ConfigError: A setting is unusable.
        """
        try:
            await _unless(self._must_end, self._prepare())
            while not self._must_end.is_set():
                await self._serve_once()
            await self._stopped.wait()
        finally:
            await self._leave()
            await self._command.close()

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Make `run` close every connection and return. Does not wait."""
        self._must_end.set()
        self._stopped.set()

    async def retire(self) -> None:
        """Accept no more clients and release all lease groups; connections stay until `stop`.

        With peers, the groups are transferred, and the call waits at most 5 s until peers own them.
        Without peers, JetStream ends.
        """
        self._must_end.set()
        self._server.close_ports()
        if self._server.owner_links.has_peers:
            await self._transfer_groups()
        elif self.runtime is not None:
            await self.runtime.retire()

    # -- serving -----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        if await self._command.open():
            self.gate.hold()
        try:
            await self._server.listen()
        except OSError as error:
            raise self._command.cannot_listen(error) from error
        self._command.listening()
        self._candidacy = await self._command.prepare()

    async def _serve_once(self) -> None:
        """Open a lease session, load and serve; return when the runtime has ended."""
        is_over = True
        try:
            if await _unless(self._must_end, self._start()):
                await self._until_over()
        except (Unavailable, Fenced) as error:
            if str(error) != self._logged_failure:
                log.warning("cannot serve: %s; trying again", error)
            self._logged_failure = str(error)
            is_over = False
        finally:
            if not self._stopped.is_set():
                await self._end_runtime()
        if not is_over:
            await _unless(self._must_end, asyncio.sleep(retry.START_S))

    async def _start(self) -> None:
        if self._candidacy is not None:
            runtime = await self._lead(self._candidacy)
            runtime.remotes.start()
        await self._command.serve(self.runtime)
        self._logged_failure = ""

    async def _lead(self, candidacy: Candidacy) -> JetStreamRuntime:
        """Open a lease session, and load the free lease groups.

        Raises:
            OperatorError: The stored data cannot be read.
            Unavailable: PostgreSQL does not answer.
        """
        try:
            leases = await candidacy.campaign()
            try:
                self.runtime = await candidacy.load(leases)
            except BaseException:
                await leases.release()
                raise
        except OSError as error:
            raise Unavailable(str(error)) from error
        return self.runtime

    async def _until_over(self) -> None:
        """Return after `stop`, or when the runtime's memory may differ from storage.

        Raises the runtime's `failure` if it has one.
        """
        ends, runtime = [self._stopped], self.runtime
        if runtime is not None:
            ends.append(runtime.deposed)
        waits = [spawn(event.wait(), name="end of a runtime") for event in ends]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        await stop(*waits)
        if runtime is not None and runtime.failure is not None:
            raise runtime.failure
        if self._must_end.is_set():  # connections stay until then, with any leader
            await self._stopped.wait()

    # -- ending ------------------------------------------------------------------------------

    async def _end_runtime(self) -> None:
        """End the runtime, if there is one; clients stay, and their publishes are held."""
        runtime, self.runtime = self.runtime, None
        if runtime is None:
            return
        self._command.step_down()
        await runtime.withdraw()
        await runtime.retire()
        await runtime.stop()

    async def _transfer_groups(self) -> None:
        """Transfer all lease groups to other nodes, which then serve the requests of clients."""
        self._server.owner_links.leave()
        if self.runtime is not None:
            try:
                await self.runtime.leave()
            except Unavailable as error:
                log.warning("no lease group is transferred: %s", error)
            await self.gate.await_successors()
            await self.gate.await_answers()

    async def _leave(self) -> None:
        """End all client connections; transfer the lease groups before, if there are peers."""
        if self._server.owner_links.has_peers:
            await self._transfer_groups()
        await self._command.leave()
        self._server.close_ports()
        await self._end_runtime()
        await self.gate.close()
        await self._server.disconnect()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Await `work`, and cancel it when `event` is set; return whether it completed."""
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
