"""Both servers from one configuration file, with JetStream and WebSocket."""

from collections.abc import Iterator

import pytest

from tests.support.dropin import NAMES, DropIn

_FILE = """
host: 127.0.0.1
port: -1
jetstream { store_dir: "%s" }
websocket { host: 127.0.0.1, port: -1, no_tls: true, compression: true }
"""


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DropIn]]:
    """jetgate and the reference, in this order; both are ready."""
    servers = []
    try:
        for name in NAMES:
            where = tmp_path_factory.mktemp(name)
            config = where / "server.conf"
            config.write_text(_FILE % (where / "store"))
            servers.append(DropIn(name, "-c", str(config)))
        for server in servers:
            server.ports()
        yield servers
    finally:
        for server in servers:
            server.__exit__()


@pytest.fixture
def addresses(pair: list[DropIn], request: pytest.FixtureRequest) -> list[str]:
    """The NATS addresses of both, or those of another door (indirect parameter)."""
    door = getattr(request, "param", "nats")
    return [server.ports()[door][0] for server in pair]
