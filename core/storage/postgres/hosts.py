"""Opens a session with the first of several hosts that answers.

The hosts are tried in their order. If a host has neither answered nor refused after 0.3 seconds,
the next one is tried in parallel, as browsers do with addresses (RFC 8305). Of a primary and its
standbys only one accepts writes, so the first session is the right one.
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
    """Return the first host with which a session could be opened, and the session.

    With one host, or for a final error, the exception of `dial` is passed on.

    Args:
        hosts: The hosts, in the order in which to try them.
        dial: Opens a session with a host.
        is_final: Returns whether an exception of `dial` ends the search, such as a wrong password.
        reason: Returns the text of an exception.

    Raises:
        ConnectionError: Every host failed; the text has the reason of each.
    """
    if len(hosts) == 1:
        return hosts[0], await dial(hosts[0])
    return await _Search(dial, is_final, reason).among(hosts)


class _Search:
    """Attempts to open a session with PostgreSQL on several hosts in parallel."""

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
        """Return the first host with which a session was opened, and the session."""
        tasks: set[asyncio.Task[None]] = set()
        unused = self._found  # all of them, if this is cancelled
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
        """Wait until one running attempt ends, at most `within` seconds (None: no limit)."""
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
