"""WebSocket and JetStream are served where they are asked for, and nowhere else."""

# Subject: WebSocket

import json

import pytest

from tests.support.dropin import NAMES, DropIn
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.websocket import WebSocket, frame
from tests.support.wire import Wire


def test_the_websocket_port_is_announced_and_serves_jetstream() -> None:
    with JetgateServer("--ws-port", "0") as server:
        ports = json.loads((server.data / "ports.json").read_text())
        host, port = ports["ws"].removeprefix("ws://").split(":")
        with WebSocket((host, int(port))) as web:
            web.open()
            web.send(frame(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB r 1\r\n'))
            web.send(frame(b"PUB $JS.API.INFO r 0\r\n\r\n"))
            assert b"account_info_response" in web.data(b"}\r\n")
        # The ports are told before JetStream is loaded, the banner after that.
        eventually(lambda: f"  WS    {ports['ws']}\n" in server.log())


def test_without_the_flag_there_is_none(jetgate_server: JetgateServer) -> None:
    assert set(json.loads((jetgate_server.data / "ports.json").read_text())) == {"nats", "http"}
    assert "  WS " not in jetgate_server.log(100_000)


@pytest.mark.parametrize("subject", ["INFO", "STREAM.CREATE.N", "STREAM.NAMES", "CONSUMER.LIST.N"])
def test_jetstream_has_no_responders_where_it_is_off(subject: str) -> None:
    answers = []
    for name in NAMES:
        with DropIn(name, "-a", "127.0.0.1", "-p", "-1") as server, Wire(server.address) as wire:
            wire.hello()
            answers.append(wire.request(f"$JS.API.{subject}", b'{"name":"N"}').headers)

    assert answers[0] == answers[1]
    assert answers[0].startswith(b"NATS/1.0 503\r\n")
