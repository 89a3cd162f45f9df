"""Queries to all nodes, for API requests that name no stream: stream infos and account usage.

Each node answers for the streams that it leads, while its leases are confirmed
(`core.jetstream.trust_gate`). Nodes that do not answer within 2 s are left out. The request to
evacuate a node is sent the same way.
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
    """The JSON answer of a node to a query for stream infos."""

    streams: list[StreamInfo] = []


class NodeQueries:
    """Sends queries to all nodes and merges the answers; answers such queries of peers.

    Args:
        peer_requests: Sends requests to nodes.
        registry: The streams that this node leads.
        routing: Finds the other nodes.
    """

    def __init__(
        self, peer_requests: PeerRequests, registry: Registry, routing: RequestRouting
    ) -> None:
        self._peer_requests = peer_requests
        self._registry = registry
        self._routing = routing
        peer_requests.handle(_INFOS, self._on_infos)
        peer_requests.handle(_USAGE, self._on_usage)
        peer_requests.handle(_EVACUATE, self._on_evacuate)

    # -- requests ------------------------------------------------------------------------------

    async def infos(self, names: Iterable[str]) -> tuple[dict[str, StreamInfo], list[str]]:
        """Return the infos of streams by name, and the names for which no node has answered.

        Each stream is requested from its leader, for at most 2 s.
        """
        by_link: dict[ServerLink | None, list[str]] = {}
        for name in names:
            by_link.setdefault(self._routing.leader_of(name), []).append(name)
        found = {each.config.name: each for each in await self._own(by_link.pop(None, ()))}
        asked = {
            link: msgspec.json.encode(some) for link, some in by_link.items() if link is not None
        }
        for answer in await self._peer_requests.request(_INFOS, asked):
            told = msgspec.json.decode(answer, type=InfosAnswer).streams
            found.update({each.config.name: each for each in told})
        return found, [name for name in names if name not in found]

    async def usage(self) -> AccountStats:
        """Return the account's usage, summed over all nodes that answer within 2 s."""
        total = self._registry.usage()
        asked = dict.fromkeys(self._routing.nodes().values(), b"")
        for answer in await self._peer_requests.request(_USAGE, asked):
            told = msgspec.json.decode(answer, type=dict[str, int])
            sums = {name: getattr(total, name) + value for name, value in told.items()}
            total = msgspec.structs.replace(total, **sums)
        return total

    async def evacuate(self, node: str) -> bool:
        """Ask a peer to transfer all its lease groups. Returns True if it agreed within 2 s.

        False also if the peer is not linked.
        """
        link = self._routing.nodes().get(node)
        return link is not None and bool(await self._peer_requests.request(_EVACUATE, {link: b""}))

    # -- answering ---------------------------------------------------------------------------

    async def _on_usage(self, _body: bytes) -> bytes:
        is_trusted = await self._registry.services.trust.wait_open()
        return _usage(self._registry.usage()) if is_trusted else b"{}"

    async def _on_evacuate(self, _body: bytes) -> bytes:
        if (cluster := self._registry.services.cluster) is not None:
            cluster.evacuate()
        return b"+OK"

    async def _on_infos(self, body: bytes) -> bytes:
        is_trusted = await self._registry.services.trust.wait_open()
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
