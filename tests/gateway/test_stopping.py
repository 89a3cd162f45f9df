"""The HTTP port closes while callers wait for messages, or do not take them."""

# Subject: HTTP

import asyncio
import socket

import pytest

from core.client import JetStream, connect, dial
from core.client.subscribe import JsMsg
from core.config.addresses import listen
from core.model.consumer import AckPolicy, ConsumerConfig, NextRequest
from core.model.stream import StreamConfig
from gateway.app import create_app
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from tests.gateway.serving import SETTINGS
from tests.support.eventually import observed
from tests.support.natsserver import NatsServer

_SECOND = 1_000_000_000


async def _start() -> StartupServer:
    start = StartupServer(listen("127.0.0.1", 0, "HTTP"))
    await start.start()
    return start


async def _asked(port: int, accept: str, batch: int) -> socket.socket:
    """Send a fetch of a whole batch; read nothing yet."""
    body = b'{"fill": true, "batch": %d, "expires": "30s"}' % batch
    head = "POST /v1/streams/STOP/consumers/C:fetch HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Accept: {accept}\r\nContent-Type: application/json\r\n"
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    caller.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(caller, ("127.0.0.1", port))
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    await loop.sock_sendall(caller, request)
    return caller


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_waiting_requests_are_answered_when_another_node_takes_over(
    nats_server: NatsServer, accept: str
) -> None:
    """The client is closed when another node leads; this one goes on as a standby."""

    async def scenario() -> bytes:
        client = await connect(dial("{}:{}".format(*nats_server.address)))
        js, http = JetStream(client), HttpServer(await _start())
        http.use(create_app(SETTINGS, client))
        await js.create_stream(StreamConfig(name="STOP", subjects=("stop",)))
        await js.create_consumer("STOP", ConsumerConfig(durable_name="C"))
        with await _asked(http.port, accept, 1) as caller:

            async def waits() -> bool:
                return (await js.consumer_info("STOP", "C")).num_waiting == 1

            await observed(waits)
            await client.close()
            async with asyncio.timeout(30):
                said = await asyncio.get_running_loop().sock_recv(caller, 1000)
        await http.stop()
        other = await connect(dial("{}:{}".format(*nats_server.address)))
        await JetStream(other).delete_stream("STOP")
        await other.close()
        return said

    said = asyncio.run(scenario())
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in said
    assert b"urn:jetgate:problem:not-connected" in said


@pytest.mark.parametrize(
    ("accept", "there", "batch", "size"),
    [
        ("application/json", 1, 2, 1),
        ("application/json", 8, 8, 1_000_000),
        ("application/x-ndjson", 8, 8, 1_000_000),
    ],
)
def test_messages_that_did_not_reach_the_caller_are_returned(
    nats_server: NatsServer, accept: str, there: int, batch: int, size: int
) -> None:
    """He waits for one more; or for nothing, but takes less than there is."""

    async def scenario() -> tuple[int, bytes]:
        client = await connect(dial("{}:{}".format(*nats_server.address)))
        js, http = JetStream(client), HttpServer(await _start())
        http.use(create_app(SETTINGS, client))
        await js.create_stream(StreamConfig(name="STOP", subjects=("stop",)))
        config = ConsumerConfig(
            durable_name="C", ack_policy=AckPolicy.EXPLICIT, ack_wait=600 * _SECOND
        )
        await js.create_consumer("STOP", config)
        for _ in range(there):
            await js.publish(b"stop", b"x" * size)
        with await _asked(http.port, accept, batch) as caller:

            async def given() -> bool:
                return (await js.consumer_info("STOP", "C")).num_ack_pending == there

            await observed(given)
            await http.stop()
            fetched = await js.fetch("STOP", "C", NextRequest(batch=1, expires=20 * _SECOND))
            caller.settimeout(30)
            try:
                said = caller.recv(100)
            except ConnectionResetError:
                said = b""
        await js.delete_stream("STOP")
        await client.close()
        return JsMsg.of(fetched.messages[0], takes_acks=True).delivered, said

    delivered, said = asyncio.run(scenario())
    assert delivered == 2
    assert said == b"" or said.startswith(b"HTTP/1.1 200 OK\r\n")
