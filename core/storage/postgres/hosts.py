"""Which of several hosts answers: they are tried in their order, and nobody waits for a dead one.

A host that has neither answered nor refused after a moment may be gone: the next one is tried
beside it, as browsers do with addresses (RFC 8305). Of a primary and its standbys one alone takes
writes, so whoever is first with a session is the right one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from core.runtime.tasks import spawn, stop
from core.storage.postgres.dsn import Host

_NEXT_AFTER_S = 0.3

Dial = Callable[[Host], Awaitable[Any]]


async def first_of(
    hosts: Sequence[Host],
    dial: Dial,
    is_final: Callable[[Exception], bool],
    reason: Callable[[Exception], str],
) -> tuple[Host, Any]:
    """Return the first host with which a session could be opened, and that.

    Args:
        hosts: in the order in which they are tried.
        dial: opens a session.
        is_final: whether what that raises for a host ends the search.
        reason: what is told of it.

    Raises:
        What `dial` raised: for one host, and for an error that is final; else ConnectionError with
        what each host said.
    """
    if len(hosts) == 1:
        return hosts[0], await dial(hosts[0])
    return await _Search(dial, is_final, reason).among(hosts)


class _Search:
    """Attempts to open a session, several at once."""

    def __init__(
        self,
        dial: Dial,
        is_final: Callable[[Exception], bool],
        reason: Callable[[Exception], str],
    ) -> None:
        self._dial = dial
        self._reason = reason
        self._is_final = is_final
        self._failed: dict[Host, Exception] = {}
        self._found: list[tuple[Host, Any]] = []
        self._is_over = False

    async def among(self, hosts: Sequence[Host]) -> tuple[Host, Any]:
        """Return the first host that answers, with its session."""
        tasks: set[asyncio.Task[None]] = set()
        unused = self._found  # all of them, when this is cancelled
        try:
            for host in hosts:
                tasks.add(spawn(self._attempt(host), name=f"connecting to {host}"))
                await self._next(tasks, _NEXT_AFTER_S)
                if self._is_over:
                    break
            while not self._is_over and not all(task.done() for task in tasks):
                await self._next(tasks, None)
            await stop(*tasks)
            unused = self._found[1:]
        finally:
            await stop(*tasks)
            for _, session in unused:
                session.terminate()
        if self._found:
            return self._found[0]
        for error in self._failed.values():
            if self._is_final(error):
                raise error
        raise ConnectionError(
            "; ".join(f"{host}: {self._reason(e)}" for host, e in self._failed.items())
        )

    async def _next(self, tasks: set[asyncio.Task[None]], within: float | None) -> None:
        """Wait for the next one to end."""
        running = [task for task in tasks if not task.done()]
        if running:
            await asyncio.wait(running, timeout=within, return_when=asyncio.FIRST_COMPLETED)

    async def _attempt(self, host: Host) -> None:
        try:
            self._found.append((host, await self._dial(host)))
            self._is_over = True
        except Exception as error:
            self._failed[host] = error
            self._is_over = self._is_over or self._is_final(error)
