"""What the account has and uses."""

from starlette.responses import Response

from gateway.call import Call
from gateway.responses import json_response


async def account(call: Call) -> Response:
    """Show what the account uses of JetStream, and its limits."""
    reply = await call.gateway.js.call("INFO")
    return json_response(reply, headers={"Cache-Control": "no-store"})
