"""The life of a process that serves NATS, for every command.

    open -> listen -> prepare -> session -> load -> serve -> end of runtime -> ... -> leave -> close
                                    ^------- memory is in doubt ----|

Clients are accepted at once and stay as long as the process; runtimes come and go. Publishes are
held until an owner can accept them (`core.node.publish_gate`): this process, or another one over
the same database. A process without JetStream owns nothing. The differences between commands are in
`Command`.
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
    """The functions by which a process acquires lease groups.

    Attributes:
        campaign: Waits for a session (`core.node.campaign`).
        load: Loads the free groups (`core.node.runtime.load`); a failure leaves the leases.
    """

    campaign: Callable[[], Coroutine[Any, Any, LeaseSession]]
    load: Callable[[LeaseSession], Coroutine[Any, Any, JetStreamRuntime]]


class Command(Protocol):
    """The parts of a process's life that depend on its command."""

    async def open(self) -> bool:
        """Start everything that needs no storage; return whether there will be JetStream.

        Raises OperatorError.
        """
        ...

    def listening(self) -> None:
        """React to open ports: clients are accepted from now on."""
        ...

    async def prepare(self) -> Candidacy | None:
        """Prepare everything that lives as long as the process.

        Returns None without JetStream. Raises OperatorError.
        """
        ...

    async def serve(self, runtime: JetStreamRuntime | None) -> None:
        """React to the start of service; `runtime` is None without JetStream.

        Raises Unavailable to be retried.
        """
        ...

    def step_down(self) -> None:
        """React to the coming end of the runtime that `serve` received."""
        ...

    async def leave(self) -> None:
        """End the services besides NATS; client connections are closed next."""
        ...

    async def close(self) -> None:
        """End everything that `open` and `prepare` began."""
        ...

    def cannot_listen(self, error: OSError) -> Exception:
        """Return the exception to raise for an address that cannot be bound."""
        ...


class Lifecycle:
    """The run of a server for a command.

    Attributes:
        gate: Holds, refuses or passes publishes.
        runtime: JetStream in memory; None: this process cannot serve it now.
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
        """Run the process until `stop`.

        Raises:
            OperatorError: The process cannot serve.
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
        """Make `run` close every connection and return."""
        self._must_end.set()
        self._stopped.set()

    async def retire(self) -> None:
        """Accept no more clients and release all lease groups; connections stay until `stop`.

        When this returns, another node owns the groups, or without peers JetStream has ended.
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
        """Wait for a lease session, load and serve; return at the end of the runtime."""
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
        """Open a lease session, and load the free groups.

        Raises:
            OperatorError: The stored data cannot be read.
            Unavailable: Storage is away.
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
        """Return when this process is to stop, or its memory is in doubt. Raises OperatorError."""
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
        """End everything that clients see; transfer the lease groups before, if there are peers."""
        if self._server.owner_links.has_peers:
            await self._transfer_groups()
        await self._command.leave()
        self._server.close_ports()
        await self._end_runtime()
        await self.gate.close()
        await self._server.disconnect()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run some work, and cancel it at an event; return whether the work was completed."""
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
