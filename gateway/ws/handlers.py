"""The HTTP handler of requests to `/v1/ws` that are no WebSocket handshake."""

from starlette.responses import Response

from gateway.http.problems import Problem
from gateway.requests.call import Call


async def open_websocket(call: Call) -> Response:
    """Refuse a request without a WebSocket handshake (426)."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    raise Problem(426, "websocket-needed", "this path takes WebSocket handshakes", headers=headers)
