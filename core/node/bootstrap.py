"""The steps by which a process acquires lease groups of a PostgreSQL, for every command.

Modules with slow imports are imported when used: a process opens its lease session first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from core.node.lifecycle import Candidacy

if TYPE_CHECKING:
    from core.cluster.directory_follower import DirectoryFollower
    from core.node.lease_session import LeaseSession
    from core.node.peers import Peers
    from core.node.publish_gate import PublishGate
    from core.node.runtime import JetStreamRuntime, RuntimeOptions
    from core.node.server import Server
    from core.storage.health import StorageHealth
    from core.storage.leases import NodeRow
    from core.storage.postgres.connect import Connector


async def _nothing() -> None:
    """Import nothing: the default of `imports`."""


class Bootstrap:
    """The JetStream parts that live as long as a process. Life cycle: `close` at its end.

    Args:
        server: The accounts, connections and peers of the process.
        gate: Its publish gate.
        connector: Opens sessions with PostgreSQL.
        health: The state of storage.
        options: Returns the options of JetStream, at each start of a runtime.
        row: The row of this node for other nodes; None: a row with only a random name.
        peers: The other nodes; None: no other process uses the database.
        imports: Imports the modules of a runtime.
    """

    def __init__(
        self,
        server: Server,
        gate: PublishGate,
        connector: Connector,
        health: StorageHealth,
        options: Callable[[], RuntimeOptions],
        *,
        row: NodeRow | None = None,
        peers: Peers | None = None,
        imports: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._server, self._gate, self._connector = server, gate, connector
        self._health, self._options = health, options
        self._row, self._peers = row, peers
        self._imports = imports
        self._known: DirectoryFollower | None = None

    @property
    def candidacy(self) -> Candidacy:
        """The functions by which the process opens a lease session and loads streams."""
        return Candidacy(self._campaign, self._load)

    def known(self) -> DirectoryFollower:
        """Return the stream directory of all nodes; the first call starts to follow it."""
        from core.cluster.directory_follower import DirectoryFollower
        from core.storage.postgres.directory_source import PostgresDirectorySource

        if self._known is None:
            source = PostgresDirectorySource(self._connector)
            self._known = DirectoryFollower(source, self._peers)
            if self._peers is not None:
                self._peers.follow(self._known)
        return self._known

    def refuse_without_owner(self, standby: Connector | None = None) -> None:
        """Set up the gate to refuse publishes and to read single messages without an owner.

        Messages are read from `standby`; None: from the database itself.
        """
        from core.api.leaderless import Leaderless
        from core.jetstream.direct.stored_get import StoredGet
        from core.storage.postgres.stored_messages import PostgresMessages

        account, clock = self._server.hub.default_account(), self._server.clock
        messages = PostgresMessages(self._connector, standby, clock)
        stored_get = StoredGet(account, messages, clock)
        self._gate.refuse_by(Leaderless(account, self.known().directory, stored_get))

    async def close(self) -> None:
        """Stop following the stream directory."""
        if self._known is not None:
            await self._known.close()

    async def _campaign(self) -> LeaseSession:
        """Return a lease session, as soon as PostgreSQL answers."""
        from core.node.campaign import campaign

        return await campaign(
            self._connector,
            self._server.clock,
            self._server.ownership,
            row=self._row,
            health=self._health,
            follower=self._peers,
        )

    async def _load(self, leases: LeaseSession) -> JetStreamRuntime:
        """Load the free lease groups. Raises OperatorError, Unavailable."""
        await self._imports()
        from core.node.runtime import load

        return await load(self._server, self._connector, leases, self._options(), self.known())
