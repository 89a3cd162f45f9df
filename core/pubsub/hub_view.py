"""The part of `core.pubsub.server.Hub` that accounts and the services of an account may use."""

from typing import Protocol

from core.pubsub.limits import Limits
from core.pubsub.receivers import ServerLink
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick


class PausedConnection(Protocol):
    """A connection from which the server has paused reading."""

    def resume(self) -> None:
        """Resume reading from the socket."""
        ...


class HubView(Protocol):
    """The state that all connections of a node share, as an account and its services use it.

    `core.pubsub.server.Hub` implements it.

    Attributes:
        overloaded: True while producers are faster than storage or consumers. Connections with
            large reads pause reading and call `resume_later`.
        output_nearly_full: True if the output of a receiver is nearly full. The connection whose
            messages filled it clears the flag and pauses reading for a moment.
        blocked_links: Links to other servers with much unsent output. Connections that send to one
            wait for it.
        author_connection_types: Types of connections whose messages need permission for their
            headers (`core.auth.author`), and whose batches belong to the connection
            (`core.pubsub.authored`).
        author_key: Secret of this process from which the author ids of batches are derived.
        stripped_bytes: Bytes of header blocks removed for clients without header support.
        reports: Number of message traces sent.
    """

    loop_tick: LoopTick
    clock: Clock
    limits: Limits
    server_id: str
    server_name: str
    cluster: str
    host: str
    domain: str
    tags: tuple[str, ...]
    jetstream: bool
    overloaded: bool
    output_nearly_full: bool
    blocked_links: list[ServerLink]
    author_connection_types: frozenset[str]
    author_key: bytes
    stripped_bytes: int
    reports: int

    def choose_publishers(self, account: str) -> None:
        """Apply the changed subject mappings of an account to its connected clients."""
        ...

    def resume_later(self, connection: PausedConnection) -> None:
        """Call `connection.resume` as soon as the server is no longer overloaded."""
        ...
