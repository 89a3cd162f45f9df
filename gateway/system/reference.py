"""HTTP handlers of the API reference: OpenAPI, AsyncAPI and HTML pages."""

from starlette.responses import HTMLResponse, Response

from gateway.http.problems import Problem
from gateway.http.responses import JSON
from gateway.requests.call import Call

# The pages contain inline styles and no scripts or images.
_INERT = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


async def openapi(call: Call) -> Response:
    """Describe every HTTP operation as an OpenAPI 3.1 document."""
    return Response(call.gateway.reference.openapi, media_type=JSON)


async def asyncapi(call: Call) -> Response:
    """Describe the feeds over WebSocket and server-sent events as an AsyncAPI 3.0 document."""
    return Response(call.gateway.reference.asyncapi, media_type=JSON)


async def docs(call: Call) -> Response:
    """Show the reference of all HTTP operations as an HTML page."""
    return HTMLResponse(call.gateway.reference.page, headers=_INERT)


async def list_problems(call: Call) -> Response:
    """Show every kind of problem (error response) as an HTML page."""
    return HTMLResponse(call.gateway.reference.problems, headers=_INERT)


async def show_problem(call: Call) -> Response:
    """Show one kind of problem (error response) as an HTML page."""
    found = call.gateway.reference.problem(call.params["kind"])
    if found is None:
        raise Problem(404, "no-such-route", "there is no such kind of problem: see /docs/problems")
    return HTMLResponse(found, headers=_INERT)
