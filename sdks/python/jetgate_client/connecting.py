"""Opening of a WebSocket to the server, and the errors of a refused or closed WebSocket."""

import asyncio
import json

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from jetgate_client.errors import ConnectionLost, JetgateError, problem_from
from jetgate_client.transport import Transport

QUIET_S = 20.0
"""Maximum time of a handshake, and of the start of a feed, in seconds."""
_PROTOCOL = Subprotocol("js.v1.msgpack")
_AT_ONCE = (1001, 1012)
_FINAL = (1002, 1007, 1009)


async def welcomed(transport: Transport) -> tuple[ClientConnection, int]:
    """Open a WebSocket and wait for the frame `welcome`.

    Returns the WebSocket and the maximum size of a frame, in bytes. Raises Problem if the server
    refuses the handshake, ConnectionLost if it does not answer.
    """
    try:
        ws = await connect(
            transport.socket_url,
            subprotocols=[_PROTOCOL],
            additional_headers=transport.authorization(),
            ssl=transport.socket_ssl,
            compression=None,
            max_size=None,
            open_timeout=QUIET_S,
            close_timeout=1,
        )
    except InvalidStatus as refused:
        raise _refused(refused) from refused
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ConnectionLost(f"WebSocket: {error or type(error).__name__}") from error
    try:
        async with asyncio.timeout(QUIET_S):
            welcome = msgspec.msgpack.decode(await ws.recv(decode=False))
    except BaseException as error:
        await ws.close()
        if isinstance(error, ConnectionClosed):
            raise closing_error(error) from error
        if isinstance(error, TimeoutError):
            raise ConnectionLost("WebSocket: not welcomed") from error
        raise
    return ws, welcome["max_frame"]


class Restarted(ConnectionLost):
    """The server restarts, and the client may reconnect at once."""


def closing_error(closed: ConnectionClosed) -> JetgateError:
    """Return the error for the close of a WebSocket, by the table of codes in docs/websocket.md."""
    code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "cut off")
    fields = {"type": reason, "title": reason, "detail": f"the socket was closed: {code}"}
    if 4000 <= code < 4100:
        return problem_from({**fields, "status": 401})
    if code in _FINAL or 4100 <= code < 4200:
        return problem_from({**fields, "status": 400})
    kind = Restarted if code in _AT_ONCE or 4200 <= code < 4300 else ConnectionLost
    return kind(f"closed: {code} {reason}")


def _refused(refused: InvalidStatus) -> JetgateError:
    """Return the error for a handshake that the server refused with an HTTP response."""
    answer = refused.response
    try:
        members = json.loads(answer.body or b"")
    except ValueError:
        members = None
    if not isinstance(members, dict):  # for example from a proxy
        members = {"title": answer.reason_phrase}
    after = answer.headers.get("Retry-After", "")
    retry_after = float(after) if after.isdecimal() else 0.0
    return problem_from({**members, "status": answer.status_code}, retry_after)
