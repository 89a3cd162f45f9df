"""The table of all operations: id, method, path, handler, and types of bodies and responses.

`gateway.contract` generates the contract from it. `{name}` in a path stands for one segment,
percent-decoded once; `:verb` at the end of a segment is part of the route.
"""

from core.model.account import AccountStats
from gateway import models
from gateway.consumer_routes import CONSUMER_ROUTES
from gateway.handlers import account, advisories, console, reference, sign_in, system, tails
from gateway.kv_routes import KV_ROUTES
from gateway.message_routes import MESSAGE_ROUTES
from gateway.object_routes import OBJECT_ROUTES
from gateway.operation import RAW, Handler, Operation
from gateway.refusals import ASKED
from gateway.stream_routes import STREAM_ROUTES

_HTML = "text/html"
_SESSION = "/v1/session"
_CACHED = ("ETag", "Cache-Control")


def _file(id: str, path: str, handler: Handler, media_type: str, *problems: str) -> Operation:
    """Return the operation that serves a file of the console."""
    return Operation(
        id,
        "GET",
        path,
        handler,
        None,
        RAW,
        (200, 304),
        query=None,
        headers=("If-None-Match#tags",),
        shows={200: _CACHED, 304: _CACHED},
        problems=("bad-header", *problems),
        media_type=media_type,
        is_open=True,
    )


ROUTES: tuple[Operation, ...] = (
    *MESSAGE_ROUTES,
    *STREAM_ROUTES,
    *CONSUMER_ROUTES,
    *KV_ROUTES,
    *OBJECT_ROUTES,
    Operation(
        "readAccount",
        "GET",
        "/v1/account",
        account.account,
        None,
        AccountStats,
        shows={200: ("Cache-Control",)},
        problems=ASKED,
    ),
    Operation(
        "followAdvisories",
        "GET",
        "/v1/advisories",
        advisories.advisories,
        query=("filter",),
        events=models.Advisory | models.Dropped,
        shows={200: ("Cache-Control",)},
        problems=("bad-subject",),
    ),
    Operation(
        "openWebSocket",
        "GET",
        "/v1/ws",
        tails.open_websocket,
        statuses=(101,),
        query=None,
        problems=("websocket-needed",),
    ),
    Operation("readOpenApi", "GET", "/openapi.json", reference.openapi, None, models.OpenApi),
    Operation("readAsyncApi", "GET", "/asyncapi.json", reference.asyncapi, None, models.AsyncApi),
    _file("showConsole", "/", console.show_console, _HTML),
    _file("readConsoleStyle", "/console.css", console.console_style, "text/css"),
    _file(
        "readConsoleModule",
        "/console/{module}",
        console.console_module,
        "text/javascript",
        "no-such-route",
    ),
    Operation("readDocs", "GET", "/docs", reference.docs, None, RAW, media_type=_HTML),
    Operation(
        "listProblems",
        "GET",
        "/docs/problems",
        reference.list_problems,
        None,
        RAW,
        media_type=_HTML,
    ),
    Operation(
        "readProblem",
        "GET",
        "/docs/problems/{kind}",
        reference.show_problem,
        None,
        RAW,
        media_type=_HTML,
        problems=("no-such-route",),
    ),
    Operation(
        "createTicket",
        "POST",
        "/v1/tickets",
        sign_in.create_ticket,
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
        sign_in.create_session,
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
        sign_in.read_session,
        None,
        models.Session,
        shows={200: ("Cache-Control",)},
    ),
    Operation(
        "endSession",
        "DELETE",
        _SESSION,
        sign_in.end_session,
        None,
        None,
        (204,),
        shows={204: ("Cache-Control", "Set-Cookie")},
        problems=("unexpected-body",),
    ),
    Operation(
        "healthz",
        "GET",
        "/healthz",
        system.healthz,
        None,
        models.Health,
        query=None,
        is_open=True,
    ),
    Operation(
        "readyz",
        "GET",
        "/readyz",
        system.readyz,
        None,
        models.Health,
        query=None,
        problems=("not-ready", "starting"),
        is_open=True,
    ),
    Operation(
        "metrics", "GET", "/metrics", system.metrics, None, RAW, query=None, media_type="text/plain"
    ),
)
