"""The handler of the account's usage and limits."""

from starlette.responses import Response

from gateway.http.responses import json_response
from gateway.requests.call import Call


async def account(call: Call) -> Response:
    """Show the account's usage of JetStream, and its limits."""
    reply = await call.gateway.js.call("INFO")
    return json_response(reply, headers={"Cache-Control": "no-store"})
