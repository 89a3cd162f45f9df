"""Setup of the JetStream parts of a process: lease session, stream directory and runtime.

Every command that serves JetStream uses it. Modules with slow imports are imported inside the
functions, so that the lease session with PostgreSQL is open before they load.
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
    """Creates the JetStream parts that live as long as a process. Call `close` at its end.

    Args:
        server: The accounts, connections and peers of the process.
        gate: The publish gate of the process.
        connector: Opens sessions with PostgreSQL.
        health: The state of storage.
        options: Returns the options of JetStream; called at each start of a runtime.
        row: The row that describes this node to other nodes; None: a row with only a random name.
        peers: The other nodes; None: no other process uses the database.
        imports: Imports the modules that a runtime needs.
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
        """The two functions with which `Lifecycle` opens a lease session and loads streams."""
        return Candidacy(self._campaign, self._load)

    def known(self) -> DirectoryFollower:
        """Return the follower of the stream directory (all streams of all nodes).

        The first call creates it and starts to follow changes.
        """
        from core.cluster.directory_follower import DirectoryFollower
        from core.storage.postgres.directory_source import PostgresDirectorySource

        if self._known is None:
            source = PostgresDirectorySource(self._connector)
            self._known = DirectoryFollower(source, self._peers)
            if self._peers is not None:
                self._peers.follow(self._known)
        return self._known

    def refuse_without_owner(self, standby: Connector | None = None) -> None:
        """Set up the publish gate for streams without an owner.

        Publishes to them are refused after a time limit, and Direct Get requests are answered from
        storage: from `standby`, or from the primary if it is None.
        """
        from core.api.leaderless import Leaderless
        from core.jetstream.direct.stored_get import StoredGet
        from core.storage.postgres.stored_messages import PostgresMessages

        account, clock = self._server.hub.default_account(), self._server.clock
        messages = PostgresMessages(self._connector, standby, clock)
        stored_get = StoredGet(account, messages, clock)
        self._gate.refuse_by(Leaderless(account, self.known().directory, stored_get))

    async def close(self) -> None:
        """Stop following the stream directory. Does nothing if `known` was never called."""
        if self._known is not None:
            await self._known.close()

    async def _campaign(self) -> LeaseSession:
        """Return an open lease session; retry until PostgreSQL answers."""
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
        """Load the free lease groups and return their runtime.

        Raises OperatorError if a row or the schema cannot be used, Unavailable if PostgreSQL does
        not answer.
        """
        await self._imports()
        from core.node.runtime import load

        return await load(self._server, self._connector, leases, self._options(), self.known())
