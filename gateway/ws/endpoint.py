"""The endpoint `/v1/ws`: accepts WebSocket handshakes, or refuses them with an HTTP response."""

from contextlib import AsyncExitStack
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from gateway.auth.authenticator import Authenticator
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credentials, from_subprotocols
from gateway.http.problems import Problem, problem_of, respond
from gateway.services import Gateway
from gateway.ws.connection import Connection, ConnectionAuth
from gateway.ws.handshake import codec_of

PATH = "/v1/ws"


class WebSocketEndpoint:
    """Serves all WebSocket handshakes and connections."""

    def __init__(self, gateway: Gateway, authenticator: Authenticator) -> None:
        self._gateway = gateway
        self._authenticator = authenticator

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until it closes, or refuse its handshake with a problem response."""
        await receive()  # websocket.connect
        async with AsyncExitStack() as resources:
            try:
                connection = await self._accepted(scope, receive, send, resources)
            except Exception as error:
                await respond(problem_of(error), scope["path"])(scope, receive, send)
                return
            counts = self._gateway.metrics.feeds
            counts.sockets += 1
            try:
                await connection.serve()
            finally:
                counts.sockets -= 1

    async def _accepted(
        self, scope: Scope, receive: Receive, send: Send, resources: AsyncExitStack
    ) -> Connection:
        try:
            if scope["path"] != PATH:
                raise Problem(404, "no-such-route", f"WebSockets are at {PATH}")
            codec, subprotocol = codec_of(scope)
            credentials = from_subprotocols(scope["subprotocols"])
        except Problem as problem:
            raise self._authenticator.count_refusal(problem, scope) from None
        auth = ConnectionAuth(self._gateway, self._authenticator, scope, resources)
        caller = await self._known(scope, auth, credentials)
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        if caller is not None:
            await send({"type": "websocket.authenticated"})
        return Connection(auth, codec, receive, send, caller)

    async def _known(
        self, scope: Scope, auth: ConnectionAuth, credentials: Credentials | None
    ) -> Caller | None:
        """Authenticate the caller by the handshake. None: the client must send `hello` first.

        Raises Problem if the credentials are refused.
        """
        ticket = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0]
        names = {name for name, _ in scope["headers"]}
        if (
            self._authenticator.requires_credentials
            and not ticket
            and credentials is None
            and not names & {b"authorization", b"cookie"}
        ):
            return None
        return await auth.authenticate(ticket=ticket, credentials=credentials)
