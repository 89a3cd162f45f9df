"""Where a request is served: by the owner of the stream that it names.

What names none is served by the node that has it. One for a stream that nobody knows goes to a node
that can create it. A request goes one hop: who gets it from another node serves it.
"""

from collections.abc import Collection
from typing import Protocol

from core.cluster.directory import StreamDirectory
from core.protocol.routed import routed_message
from core.pubsub.account import NODES, Account, NodeCall
from core.pubsub.route import MESSAGE, Link

_DIRECTORY = 0


class Leaders(Protocol):
    """The owners of lease groups (`core.node.reach.Reach`)."""

    @property
    def leads(self) -> bool:
        """Return whether this node owns any group."""
        ...

    def link(self, group: int) -> Link | None:
        """Return the link to the peer that owns a group; None: no peer owns it."""
        ...

    def nodes(self) -> dict[str, Link]:
        """Return the links to the other nodes, by the names of these."""
        ...


class Nowhere:
    """Stands for other nodes where there are none."""

    leads = True

    def link(self, group: int) -> Link | None:
        """Return none."""
        return None

    def nodes(self) -> dict[str, Link]:
        """Return none."""
        return {}


class Places:
    """The places of the streams of one account.

    Args:
        account: whose requests are sent.
        directory: the streams of all nodes.
        leaders: the nodes.
    """

    def __init__(self, account: Account, directory: StreamDirectory, leaders: Leaders) -> None:
        self._account = account
        self._directory = directory
        self._leaders = leaders

    def of(self, names: Collection[str], *, is_meta: bool) -> Link | None:
        """Return the link to who serves a request; None: this node does.

        `is_meta`: it is about the cluster itself.
        """
        if is_meta:
            return self._leaders.link(_DIRECTORY)
        if not names:
            return None
        account, name = self._account.name, next(iter(names))
        # One that is new belongs to who leads its stage, or whose stage it is.
        stream = self._directory.find(account, name) or self._directory.kin(account, name)
        if stream is not None:
            return self._leaders.link(stream.lease_group)
        return None if self._leaders.leads else self._leaders.link(_DIRECTORY)

    def nodes(self) -> dict[str, Link]:
        """Return the links to the other nodes, by the names of these."""
        return self._leaders.nodes()

    def leader(self, name: str) -> Link | None:
        """Return the link to who leads a stream; None: this node does, or nobody."""
        return self.of((name,), is_meta=False)

    def send(
        self, link: Link, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Send a request on: past the subscriptions there, to what `listen` has named."""
        name = NODES + self._account.name.encode()
        line = routed_message(name, subject, reply, (), headers, payload)
        link.send(line, MESSAGE + len(headers) + len(payload))
        self._account.turn.arm()

    def listen(self, below: bytes, serve: NodeCall) -> None:
        """Have `serve` called with what other nodes send on subjects that begin so."""
        self._account.node_calls[below] = serve

    def unlisten(self, below: bytes) -> None:
        """End what `listen` began, if it did."""
        self._account.node_calls.pop(below, None)
