"""A PostgreSQL as in production: TCP, passwords, TLS and a role without superuser rights."""

import os
import socket
import threading
from pathlib import Path
from typing import Self

import pytest
import trustme

from core.storage.postgres.preflight import VERSIONS
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find
from tests.support.ports import free_port

PASSWORD = "a b@c/d%e"
"""The password of the role `jet`, with every character that a connection string must escape."""
ENCODED = "a%20b%40c%2Fd%25e"
_ACCESS = """\
local all postgres trust
local all all scram-sha-256
host all all 127.0.0.0/8 scram-sha-256
"""


class OperatorPostgres:
    """PostgreSQL on a TCP port, with the role `jet`, whose password is `PASSWORD`.

    Skips the test if the version is not installed.

    Args:
        major: The major version. Only the oldest supported one, the default, has TLS (with a
            certificate for `localhost`), because other binaries may be built without it.

    Attributes:
        server: The server; its connection string is that of the superuser over the Unix socket.
        installation: The binaries of PostgreSQL.
        port: TCP port of the server on 127.0.0.1.
        root: PEM file of the certificate authority that signed the server's certificate.
    """

    def __init__(self, major: int = VERSIONS[0]) -> None:
        installation = find(major)
        if installation is None:
            pytest.skip(f"PostgreSQL {major} is not here (apt-get install postgresql-{major})")
        self.installation = installation
        self.port = free_port()
        settings = {"fsync": "on", "listen_addresses": "127.0.0.1", "port": str(self.port)}
        self.server = PostgresServer(installation=installation, settings=settings)
        self.root = self.server.dir / "root.pem"

    def __enter__(self) -> Self:
        self.server.start()
        self.server.server.dsn += f"&port={self.port}"
        data = self.server.server.data
        (data / "pg_hba.conf").write_text(_ACCESS)
        if self.installation.major == VERSIONS[0]:
            self._certify(data)
        self.server.execute("select pg_reload_conf()")
        self.server.execute(f"create role jet login password '{PASSWORD}'")
        return self

    def _certify(self, data: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.root)
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(data / "server.key")
        issued.cert_chain_pems[0].write_to_path(data / "server.crt")
        owner = data.stat()
        for name in ("server.key", "server.crt"):
            os.chown(data / name, owner.st_uid, owner.st_gid)
            (data / name).chmod(0o600)
        self.server.execute("alter system set ssl = on")

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def database(self, *, owned: bool = True, migrated: bool = False) -> tuple[str, str]:
        """Create a database; return its name and the superuser's connection string for it.

        Args:
            owned: Make the role `jet` its owner.
            migrated: Create jetgate's schema in it.
        """
        admin = self.server.fresh_database(migrated=migrated)
        name = admin.partition("@/")[2].partition("?")[0]
        if owned:
            self.server.execute(f"alter database {name} owner to jet")
        return name, admin

    def dsn(self, name: str, *, host: str = "", options: str = "") -> str:
        """Return the connection string of the role `jet`, with its password, for a database.

        Args:
            name: Name of the database.
            host: Host and port instead of 127.0.0.1 and the server's port.
            options: Query string of the URL.
        """
        at = host or f"127.0.0.1:{self.port}"
        return f"postgresql://jet:{ENCODED}@{at}/{name}{options and '?' + options}"


class Forwarder:
    """A TCP forwarder to a port of 127.0.0.1. Its own port accepts connections after `listen`.

    Args:
        to: The port to forward to.
        ends: Number of initial connections that it closes after the first bytes, like a server
            that is stopping.
    """

    def __init__(self, to: int, ends: int = 0) -> None:
        self._ends = ends
        self.port = free_port()
        self._to = to
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    def __exit__(self, *_: object) -> None:
        for sock in [*self._open, *([self._listener] if self._listener else [])]:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def listen(self) -> None:
        """Open `port` and forward connections to it."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if self._ends:
                self._ends -= 1
                near.recv(1 << 16)
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


def written(path: Path, text: str, mode: int = 0o600) -> str:
    """Write a file with these permissions, by default for its owner only; return its path."""
    path.write_text(text)
    path.chmod(mode)
    return str(path)
