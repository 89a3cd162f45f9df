"""HTTP handlers of browser sessions and of tickets for WebSocket handshakes.

Browsers need both, because their scripts cannot set headers on each request.
"""

from starlette.responses import Response

from core.model.gotime import format_time
from gateway.auth.credentials import Credentials, cookie_of, unauthorized
from gateway.auth.origins import is_secure, origin_of
from gateway.auth.revocation import RevocationReason
from gateway.auth.sessions import cookie_name, set_cookie
from gateway.http.responses import json_response, no_content
from gateway.requests.call import Call

_NO_STORE = {"Cache-Control": "no-store"}


async def create_ticket(call: Call) -> Response:
    """Create a ticket that opens one WebSocket with the caller's identity, within seconds."""
    await call.no_body()
    caller = call.caller
    origin = origin_of(call.scope)
    text = caller.auth.tickets.issue(caller.credentials, caller.session, origin)
    value = {"ticket": text, "expires_in": caller.auth.ticket_seconds}
    return json_response(value, 201, _NO_STORE)


async def create_session(call: Call) -> Response:
    """Begin a browser session with credentials; a session's cookie cannot begin another session."""
    await call.no_body()
    caller, secure = call.caller, is_secure(call.scope)
    if caller.session is not None:
        raise unauthorized("a session begins with Authorization, not with another session")
    _end_own(call, secure=secure)
    value, session = caller.auth.sessions.begin(caller.credentials or Credentials())
    cookie = set_cookie(value, caller.auth.session_seconds, is_secure=secure)
    body = {"name": caller.name, "expires": format_time(session.expires)}
    return json_response(body, 201, _NO_STORE | {"Set-Cookie": cookie})


async def read_session(call: Call) -> Response:
    """Read the caller's name, the expiry of its session if any, and the maximum message size."""
    body: dict[str, object] = {"name": call.caller.name}
    if call.caller.session is not None:
        body["expires"] = format_time(call.caller.session.expires)
    body["max_payload"] = call.gateway.client.info.max_payload
    return json_response(body, 200, _NO_STORE)


async def end_session(call: Call) -> Response:
    """End the session of the cookie, and all its open responses and WebSockets."""
    await call.no_body()
    secure = is_secure(call.scope)
    _end_own(call, secure=secure)
    return no_content(_NO_STORE | {"Set-Cookie": set_cookie("", 0, is_secure=secure)})


def _end_own(call: Call, *, secure: bool) -> None:
    value = cookie_of(call.scope["headers"], cookie_name(is_secure=secure))
    sessions = call.caller.auth.sessions
    if value and (session := sessions.find(value)) is not None:
        sessions.end(session, RevocationReason.SIGNED_OUT)
