"""Connects to other servers of the cluster, and reconnects.

There is one task for each address. A configured address is dialled until the server stops. An
address from gossip is dialled `connect_retries` times after a failure. After the loss of its route
it is dialled 60 times, because the server may be cut off or stopped for a while; a server that
announced its leave is excepted. While another route to the server at an address exists, the task
waits.
"""

import asyncio
import logging
import os
import random
import socket

from core.route.addresses import joined
from core.route.cluster import Cluster
from core.route.link import RouteLink
from core.route.settings import RouteUrl
from core.runtime.tasks import spawn, stop

log = logging.getLogger(__name__)

_PAUSE_S = 1.0
_JITTER_S = 0.1
_DIAL_S = 2.0
_REPORT_EVERY = 3600
_LOST_RETRIES = 60
GOSSIPED_MAX = 512
"""Largest number of addresses dialled at once; above it, addresses from gossip are ignored."""


class Dialer:
    """The tasks that connect to other servers of the cluster, one per address."""

    def __init__(self, mesh: Cluster[RouteLink]) -> None:
        self._mesh = mesh
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    def keep(self, url: RouteUrl, *, is_configured: bool) -> None:
        """Connect to an address, and reconnect after a loss.

        `is_configured`: without a limit of attempts. An address from gossip is ignored while
        `GOSSIPED_MAX` addresses are dialled.
        """
        place = (url.host, url.port)
        if not is_configured and not self._has_room():
            log.warning("Not dialling %s: %d addresses are gossiped", joined(*place), GOSSIPED_MAX)
            return
        if (task := self._tasks.get(place)) is None or task.done():
            name = f"route to {url.host}:{url.port}"
            self._tasks[place] = spawn(self._keep(url, is_configured), name=name)

    def _has_room(self) -> bool:
        """Return True if one more gossiped address may be dialled; first drop finished tasks."""
        if len(self._tasks) >= GOSSIPED_MAX:
            self._tasks = {at: task for at, task in self._tasks.items() if not task.done()}
        return len(self._tasks) < GOSSIPED_MAX

    def drop(self, url: RouteUrl) -> None:
        """Stop connecting to an address. An existing route is not closed."""
        if (task := self._tasks.pop((url.host, url.port), None)) is not None:
            task.cancel()

    def stop(self) -> None:
        """Stop connecting to all addresses. Existing routes are not closed."""
        for task in self._tasks.values():
            task.cancel()

    async def close(self) -> None:
        """Stop connecting to all addresses, and wait until every task has ended."""
        await stop(*self._tasks.values())
        self._tasks = {}

    async def _keep(self, url: RouteUrl, is_configured: bool) -> None:
        most = self._mesh.settings.connect_retries
        failures = 0
        while is_configured or failures <= most:
            link = await self._dial(url, is_configured, failures + 1)
            if link is None:
                failures += 1
            else:
                await link.ended.wait()
                if link.info.server_id == self._mesh.hub.server_id:
                    return
                failures = 0 if link.is_registered else failures + 1
                if link.is_registered and not link.info.ldm:
                    most = max(most, _LOST_RETRIES)
                # A second link is refused before its server has proved its identity.
                if (other := self._mesh.peers.get(link.claimed_id)) is not None:
                    failures = 0
                    await other.ended.wait()
            pause = _PAUSE_S if is_configured or failures else 0.0
            await asyncio.sleep(pause + random.random() * _JITTER_S)

    async def _dial(self, url: RouteUrl, is_configured: bool, attempt: int) -> RouteLink | None:
        """Connect once. Return None if the connection fails."""
        link = self._mesh.new_link(url, is_configured)
        loop = asyncio.get_running_loop()
        is_connected = False
        try:
            async with asyncio.timeout(_DIAL_S):
                await loop.create_connection(lambda: link, url.host, url.port)
            is_connected = True
        except OSError as error:
            if attempt % _REPORT_EVERY == 1:
                said = f"dial tcp {joined(url.host, url.port)}: {_why(error)}"
                log.error("Error trying to connect to route (attempt %d): %s", attempt, said)
            return None
        finally:
            # uvloop does not call connection_lost if the wait ends just after connection_made.
            if not is_connected and self._mesh.is_open(link):
                link.connection_lost(None)
        return link


def _why(error: OSError) -> str:
    """Return the reason of a failed dial in the words of Go."""
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    if isinstance(error, socket.gaierror):
        return "no such host"
    known = os.strerror(error.errno) if error.errno else str(error)
    return f"connect: {known.lower()}"
