"""The doors of `jetgate dev`: NATS over WebSocket is there when it is asked for."""

import json

from tests.support.jetgate import JetgateServer
from tests.support.websocket import WebSocket, frame


def test_the_websocket_port_is_told_and_serves_jetstream() -> None:
    with JetgateServer("--ws-port", "0") as server:
        ports = json.loads((server.data / "ports.json").read_text())
        host, port = ports["ws"].removeprefix("ws://").split(":")
        with WebSocket((host, int(port))) as web:
            web.open()
            web.send(frame(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB r 1\r\n'))
            web.send(frame(b"PUB $JS.API.INFO r 0\r\n\r\n"))
            assert b"account_info_response" in web.data(b"}\r\n")
        assert f"  WS    {ports['ws']}\n" in server.log()


def test_without_the_flag_there_is_none(jetgate_server: JetgateServer) -> None:
    assert set(json.loads((jetgate_server.data / "ports.json").read_text())) == {"nats", "http"}
    assert "  WS " not in jetgate_server.log(100_000)
