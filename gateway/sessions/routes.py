"""HTTP routes of browser sessions (`/v1/session`) and of tickets for WebSocket handshakes."""

from gateway.formats import models
from gateway.requests.operation import Operation
from gateway.sessions import handlers

_SESSION = "/v1/session"

SESSION_ROUTES: tuple[Operation, ...] = (
    Operation(
        "createTicket",
        "POST",
        "/v1/tickets",
        handlers.create_ticket,
        None,
        models.Ticket,
        (201,),
        shows={201: ("Cache-Control",)},
        problems=("too-many-tickets", "unexpected-body"),
    ),
    Operation(
        "createSession",
        "POST",
        _SESSION,
        handlers.create_session,
        None,
        models.Session,
        (201,),
        shows={201: ("Cache-Control", "Set-Cookie")},
        problems=("unexpected-body",),
    ),
    Operation(
        "readSession",
        "GET",
        _SESSION,
        handlers.read_session,
        None,
        models.Session,
        shows={200: ("Cache-Control",)},
    ),
    Operation(
        "endSession",
        "DELETE",
        _SESSION,
        handlers.end_session,
        None,
        None,
        (204,),
        shows={204: ("Cache-Control", "Set-Cookie")},
        problems=("unexpected-body",),
    ),
)
