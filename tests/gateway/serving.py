"""The façade over any NATS address, on a real HTTP server in a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any, Self, cast

import uvicorn
from starlette.types import ASGIApp

from core.client import Client, Options, connect, dial
from gateway.app import create_app
from gateway.http.protocol import HttpProtocol
from gateway.http.websocket_protocol import UVICORN_OPTIONS, WebSocketProtocol
from gateway.monitoring.events import OperatorEvent, RequestFailed
from gateway.monitoring.metrics import ConsumerNumbers, Histogram, Metrics, Snapshot, StreamNumbers
from gateway.settings import Settings

SETTINGS = Settings(ack_key=b"a key for tests only, 32 bytes..")


class GatewayServer:
    """`create_app` served by uvicorn on a free port; failures of ours are kept to be asserted.

    `own`: who the façade itself is, where the server has users.
    """

    def __init__(
        self,
        nats: tuple[str, int],
        settings: Settings = SETTINGS,
        *,
        with_users: bool = False,
        own: Options | None = None,
        http_type: type[HttpProtocol] = HttpProtocol,
        wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        self.wrap = wrap
        self.http_type = http_type
        self.nats = nats
        self.with_users = with_users
        self.own = own
        self.settings = settings
        self.failures: list[BaseException] = []
        self.http = ("127.0.0.1", 0)
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._failed)
        address = dial("{}:{}".format(*self.nats))

        async def login(user: str, password: str, token: str, _address: str) -> Client:
            return await connect(address, Options(user=user, password=password, token=token))

        client = Client(address, Options()) if self.with_users else await connect(address)
        server = None if self.own is None else await connect(address, self.own)
        app = create_app(
            self.settings,
            client,
            login=login if self.with_users else None,
            server=server,
            report_event=self._report_event,
            metrics=Metrics(_snapshot),
        )
        # With its protocol, or asyncio leaves answers to wait for acknowledgements of TCP.
        listening = socket.socket(proto=socket.IPPROTO_TCP)
        listening.bind(self.http)
        listening.listen(128)
        self.http = listening.getsockname()
        config = uvicorn.Config(
            self.wrap(app),
            log_level="error",
            access_log=False,
            server_header=False,
            ws=WebSocketProtocol,
            lifespan="off",
            proxy_headers=False,
            http=cast(type[asyncio.Protocol], self.http_type),
            **UVICORN_OPTIONS,
        )
        self._server = uvicorn.Server(config)
        self._ready.set()
        await self._server.serve(sockets=[listening])
        await client.close()
        if server is not None:
            await server.close()
        await app.authenticator.close()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what a callback raised, of a protocol for instance: nobody else gets to see it."""
        self.failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _report_event(self, observation: OperatorEvent) -> None:
        if isinstance(observation, RequestFailed):
            self.failures.append(observation.error)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60), "the façade did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(20)


def _snapshot() -> Snapshot:
    return Snapshot(
        streams=(StreamNumbers("ORDERS", 3, 300, 1, 3, 1),),
        consumers=(ConsumerNumbers("ORDERS", 'quo"ted', 2, 1),),
        in_msgs=7,
        commits=2,
        commit_seconds=Histogram((0.001, 0.01), (1, 1, 0), 0.006),
    )
