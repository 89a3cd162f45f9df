"""Several nodes over one database, each behind proxies that simulate network partitions."""

from typing import Self
from urllib.parse import parse_qs, urlsplit

from core.storage.postgres.embedded.directory import SOCKET_NAME
from tests.histories.proxy import Proxy, RouteProxy
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes
from tests.support.ports import held_port
from tests.support.sockets import has_port


class ProxiedNodes(Nodes):
    """Nodes whose links to peers and connections to PostgreSQL pass through TCP proxies.

    `break_…` closes connections, `hold_…` delays their data; both last until `heal`.
    """

    def __init__(self, dsn: str, count: int, *flags: str) -> None:
        super().__init__(dsn, count, *flags)
        found = urlsplit(dsn)
        path = f"{parse_qs(found.query)['host'][0]}/{SOCKET_NAME}"
        self._ports = [held_port() for _ in self.all]
        self._databases = [Proxy(path) for _ in self.all]
        self._routes = [RouteProxy(held.getsockname()[1], self._caller) for held in self._ports]
        name = found.path.removeprefix("/")
        for node, held, database, routes in zip(
            self.all, self._ports, self._databases, self._routes, strict=True
        ):
            address = f"postgres@127.0.0.1:{database.port}/{name}?sslmode=disable"
            node.command = ["serve", "--dsn", f"postgresql://{address}"]
            node.flags += ("--cluster-listen", f"127.0.0.1:{held.getsockname()[1]}")
            node.flags += ("--cluster-advertise", f"127.0.0.1:{routes.port}")

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        for proxy in (*self._databases, *self._routes):
            proxy.__exit__()
        for held in self._ports:
            held.close()

    def _caller(self, port: int) -> str | None:
        """Return the index of the node that has this local port; None for other processes."""
        for number, node in enumerate(self.all):
            if node.process is not None and has_port(node.process.pid, port):
                return str(number)
        return None

    def break_link(self, one: JetgateServer, other: JetgateServer) -> None:
        """Close the link between two nodes and refuse new ones until `heal`."""
        first, second = self.all.index(one), self.all.index(other)
        self._routes[first].disconnect(str(second))
        self._routes[second].disconnect(str(first))

    def hold_link(self, one: JetgateServer, other: JetgateServer) -> None:
        """Hold all data between two nodes until `heal`; their connections stay open."""
        first, second = self.all.index(one), self.all.index(other)
        self._routes[first].hold(str(second), to_peer=True, from_peer=True)
        self._routes[second].hold(str(first), to_peer=True, from_peer=True)

    def break_database(self, node: JetgateServer) -> None:
        """Close all connections of a node to PostgreSQL, and new ones at once until `heal`."""
        self._databases[self.all.index(node)].disconnect()

    def hold_database(self, node: JetgateServer) -> None:
        """Hold all data between a node and PostgreSQL until `heal`; connections stay open."""
        self._databases[self.all.index(node)].hold(to_database=True, to_node=True)

    def heal(self) -> None:
        """Forward data and accept connections again; held data is forwarded first."""
        for database in self._databases:
            database.heal()
        for routes in self._routes:
            for number in range(len(self.all)):
                routes.heal(str(number))
