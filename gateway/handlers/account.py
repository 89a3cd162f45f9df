"""The handler of the account's usage and limits."""

from starlette.responses import Response

from gateway.call import Call
from gateway.responses import json_response


async def account(call: Call) -> Response:
    """Show the account's usage of JetStream, and its limits."""
    reply = await call.gateway.js.call("INFO")
    return json_response(reply, headers={"Cache-Control": "no-store"})
