"""HTTP handlers of health checks and Prometheus metrics."""

import asyncio

from starlette.responses import Response

from core.client import ClientError
from core.errors import ApiError
from gateway.http.problems import RETRY, Problem
from gateway.http.responses import json_response
from gateway.requests.call import Call


async def healthz(call: Call) -> Response:
    """Report that the process responds to HTTP requests."""
    return json_response({"status": "ok"})


async def readyz(call: Call) -> Response:
    """Report whether messages can be stored: JetStream responds, and storage works.

    Probes have no credentials, so the check uses the server's own connection.
    """
    if trouble := call.gateway.trouble():
        raise Problem(503, "not-ready", f"nothing can be stored: {trouble}", headers=RETRY)
    server = call.gateway.server
    try:
        await (call.gateway.js if server is None else server.js).call("INFO")
    except (ClientError, ApiError) as error:
        raise Problem(503, "not-ready", str(error), headers=RETRY) from None
    return json_response({"status": "ok"})


async def metrics(call: Call) -> Response:
    """Show all metrics in the Prometheus text format."""
    registry = call.gateway.metrics
    registry.refresh()
    # Formatting tens of thousands of samples would block the event loop.
    body, content_type = await asyncio.to_thread(registry.text, call.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type})
