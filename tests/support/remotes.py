"""Helpers for tests of remotes: the command `jetgate remote`, and a nats-server for leaf nodes."""

import subprocess

from tests.support.commands import jetgate
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.ports import free_port


def remote(*arguments: str, on: JetgateServer | str) -> subprocess.CompletedProcess[str]:
    """Run `jetgate remote` on the database of a node or of a connection string, to its end."""
    place = ["--dsn", on] if isinstance(on, str) else ["--data", on.data]
    return jetgate("remote", *arguments, *place)


def started_hub() -> NatsServer:
    """Return a nats-server that accepts leaf nodes on a free port; the caller starts it."""
    leafnodes = f"{{ host: 127.0.0.1, port: {free_port()} }}"
    return NatsServer({"port": free_port(), "leafnodes": leafnodes})


def leaf_url(hub: NatsServer) -> str:
    """Return the URL for leaf nodes of a server from `started_hub`."""
    line = next(each for each in hub.config.read_text().splitlines() if "leafnodes" in each)
    return f"nats-leaf://127.0.0.1:{line.rpartition(' port: ')[2].strip(' }')}"
