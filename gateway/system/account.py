"""The HTTP handler that shows the JetStream usage and limits of the caller's account."""

from starlette.responses import Response

from gateway.http.responses import json_response
from gateway.requests.call import Call


async def account(call: Call) -> Response:
    """Show the account's JetStream usage and limits."""
    reply = await call.gateway.js.call("INFO")
    return json_response(reply, headers={"Cache-Control": "no-store"})
