"""HTTP route that opens a WebSocket (`/v1/ws`)."""

from gateway.requests.operation import Operation
from gateway.ws import handlers

WS_ROUTES: tuple[Operation, ...] = (
    Operation(
        "openWebSocket",
        "GET",
        "/v1/ws",
        handlers.open_websocket,
        statuses=(101,),
        query=None,
        problems=("websocket-needed",),
    ),
)
