"""Requests to all nodes, for API requests that name no stream: infos of streams, and usage.

Each node answers for the streams that it leads, within its trust window
(`core.jetstream.trust_gate`). Nodes that do not answer in time are left out. The request to
evacuate a node uses the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from core.api.peer_requests import PeerRequests
from core.api.request_routing import RequestRouting
from core.model.account import AccountStats
from core.model.stream import StreamInfo

if TYPE_CHECKING:
    from core.jetstream.registry import Registry
    from core.pubsub.receivers import ServerLink

_INFOS, _USAGE, _EVACUATE = b"INFOS", b"USAGE", b"EVACUATE"


class InfosAnswer(msgspec.Struct):
    """The answer to a request for infos of streams."""

    streams: list[StreamInfo] = []


class NodeQueries:
    """Gathers data from all nodes, and answers such requests of peers.

    Args:
        asking: Sends requests to nodes.
        registry: The streams that this node leads.
        places: The other nodes.
    """

    def __init__(self, asking: PeerRequests, registry: Registry, places: RequestRouting) -> None:
        self._asking = asking
        self._registry = registry
        self._places = places
        asking.serve(_INFOS, self._tell_infos)
        asking.serve(_USAGE, self._tell_usage)
        asking.serve(_EVACUATE, self._evacuate)

    # -- asking ------------------------------------------------------------------------------

    async def infos(self, names: Iterable[str]) -> tuple[dict[str, StreamInfo], list[str]]:
        """Return ({name: info} of streams, names without an answer), from all nodes."""
        by_link: dict[ServerLink | None, list[str]] = {}
        for name in names:
            by_link.setdefault(self._places.leader(name), []).append(name)
        found = {each.config.name: each for each in await self._own(by_link.pop(None, ()))}
        asked = {
            link: msgspec.json.encode(some) for link, some in by_link.items() if link is not None
        }
        for answer in await self._asking.ask(_INFOS, asked):
            told = msgspec.json.decode(answer, type=InfosAnswer).streams
            found.update({each.config.name: each for each in told})
        return found, [name for name in names if name not in found]

    async def usage(self) -> AccountStats:
        """Return the account's usage, summed over all nodes that answer."""
        total = self._registry.usage()
        asked = dict.fromkeys(self._places.nodes().values(), b"")
        for answer in await self._asking.ask(_USAGE, asked):
            told = msgspec.json.decode(answer, type=dict[str, int])
            sums = {name: getattr(total, name) + value for name, value in told.items()}
            total = msgspec.structs.replace(total, **sums)
        return total

    async def evacuate(self, node: str) -> bool:
        """Ask a peer to release all its lease groups. Returns True if it agreed."""
        link = self._places.nodes().get(node)
        return link is not None and bool(await self._asking.ask(_EVACUATE, {link: b""}))

    # -- answering ---------------------------------------------------------------------------

    async def _tell_usage(self, _body: bytes) -> bytes:
        is_trusted = await self._registry.services.trust.is_back()
        return _usage(self._registry.usage()) if is_trusted else b"{}"

    async def _evacuate(self, _body: bytes) -> bytes:
        if (cluster := self._registry.services.cluster) is not None:
            cluster.evacuate()
        return b"+OK"

    async def _tell_infos(self, body: bytes) -> bytes:
        is_trusted = await self._registry.services.trust.is_back()
        infos = await self._own(msgspec.json.decode(body, type=list[str]) if is_trusted else ())
        return msgspec.json.encode(InfosAnswer(infos))

    async def _own(self, names: Iterable[str]) -> list[StreamInfo]:
        streams = self._registry.streams
        return [await streams[name].info() for name in names if name in streams]


def _usage(stats: AccountStats) -> bytes:
    names = (
        "memory",
        "storage",
        "reserved_memory",
        "reserved_storage",
        "streams",
        "consumers",
    )
    return msgspec.json.encode({name: getattr(stats, name) for name in names})
