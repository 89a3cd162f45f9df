"""The choice of the node that serves an API request: the leader of the stream that it names.

A request that names no stream is served by the node that received it. A request for an unknown
stream goes to a node that can create streams. A request is forwarded once: its receiver serves it.
"""

from collections.abc import Collection
from typing import Protocol

from core.cluster.directory import StreamDirectory
from core.protocol.routed import routed_message
from core.pubsub.account import NODES, Account, NodeCall
from core.pubsub.receivers import MESSAGE, ServerLink
from core.units import LeaseGroup

_DIRECTORY = LeaseGroup(0)


class GroupOwners(Protocol):
    """The nodes that own lease groups; an owner leads the streams of its groups.

    A lease group is a set of streams with one leader. Implemented by
    `core.node.owner_links.OwnerLinks`.
    """

    @property
    def leads(self) -> bool:
        """True if this node owns any lease group."""
        ...

    def link(self, group: LeaseGroup) -> ServerLink | None:
        """Return the link to the peer that owns a lease group; None if no peer owns it."""
        ...

    def nodes(self) -> dict[str, ServerLink]:
        """Return the links to the other nodes, by node name."""
        ...


class NoPeers:
    """The `GroupOwners` of a node without peers: this node owns every lease group."""

    leads = True

    def link(self, group: LeaseGroup) -> ServerLink | None:
        """Return None: no peer owns a lease group."""
        return None

    def nodes(self) -> dict[str, ServerLink]:
        """Return an empty dict: there are no other nodes."""
        return {}


class RequestRouting:
    """Finds the nodes that serve the API requests of one account, and forwards requests to them.

    Args:
        account: The account of the requests.
        directory: The streams of all nodes.
        leaders: The owners of lease groups (sets of streams with one leader).
    """

    def __init__(self, account: Account, directory: StreamDirectory, leaders: GroupOwners) -> None:
        self._account = account
        self._directory = directory
        self._leaders = leaders

    def serving_node(self, names: Collection[str], *, is_meta: bool) -> ServerLink | None:
        """Return the link to the node that serves a request; None: this node serves it.

        Args:
            names: The names in the request's subject, the stream first; empty if there are none.
            is_meta: True if the request is about the cluster itself.
        """
        if is_meta:
            return self._leaders.link(_DIRECTORY)
        if not names:
            return None
        account, name = self._account.name, next(iter(names))
        # A new stream belongs to the leader of its staging stream, or of its target if it is one.
        stream = self._directory.find(account, name) or self._directory.kin(account, name)
        if stream is not None:
            return self._leaders.link(stream.lease_group)
        return None if self._leaders.leads else self._leaders.link(_DIRECTORY)

    def nodes(self) -> dict[str, ServerLink]:
        """Return the links to the other nodes, by node name."""
        return self._leaders.nodes()

    def leader_of(self, name: str) -> ServerLink | None:
        """Return the link to the peer that leads a stream; None: this node leads it, or no node."""
        return self.serving_node((name,), is_meta=False)

    def send(
        self, link: ServerLink, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Send a message to one node over a link: only its `listen` callbacks receive it."""
        name = NODES + self._account.name.encode()
        line = routed_message(name, subject, reply, (), headers, payload)
        link.send(line, MESSAGE + len(headers) + len(payload))
        self._account.loop_tick.arm()

    def listen(self, below: bytes, serve: NodeCall) -> None:
        """Call `serve` for each message of another node whose subject begins with `below`."""
        self._account.node_calls[below] = serve

    def unlisten(self, below: bytes) -> None:
        """Remove the callback of `listen` for the prefix `below`, if there is one."""
        self._account.node_calls.pop(below, None)
