"""The official JavaScript client over WebSocket, against both servers."""

# Subject: WebSocket

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.protocol.upgrade import WebSocketOptions
from tests.support.core_server import CoreServer
from tests.support.natsserver import NatsServer
from tests.support.node_packages import run_node

_SCRIPT = Path(__file__).parent / "scripts" / "core.cjs"
_RULES = Permissions(subscribe=Rule(None, ("secret.>",)))
_TEXT = '{ users: [{user: js, password: script, permissions: {subscribe: {deny: "secret.>"}}}] }'


@pytest.fixture(params=["plain", "compressed", "reference"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A WebSocket address with one user, who may not listen to `secret.>`."""
    if request.param == "reference":
        websocket = "{ host: 127.0.0.1, port: -1, no_tls: true, compression: true }"
        with NatsServer({"authorization": _TEXT, "websocket": websocket}) as server:
            ports = json.loads((server.dir / f"nats-server_{server.pid}.ports").read_text())
            yield str(ports["websocket"][0])
        return
    options = WebSocketOptions(compression=request.param == "compressed")
    users = Users(users=(User("js", "script", _RULES),))
    with CoreServer(users=users, websocket=options) as server:
        yield "ws://{}:{}".format(*server.websocket)


def test_javascript(address: str) -> None:
    assert run_node(_SCRIPT, address) == "ok\n"
