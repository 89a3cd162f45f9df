"""HTTP handlers that change the state of a consumer: pause, resume, unpin, reset."""

from typing import Any

from starlette.responses import Response

from core.model.gotime import format_time, parse_time
from gateway.formats.models import PauseRequest, ResetRequest, UnpinRequest
from gateway.formats.validation import duration, name, struct
from gateway.http.problems import bad_request, quoted
from gateway.http.responses import json_response, no_content
from gateway.requests import entity_tags
from gateway.requests.call import Call


async def pause(call: Call) -> Response:
    """Pause a consumer until a time; earlier deliveries can still be acknowledged."""
    path = _path(call)
    request = struct(PauseRequest, await call.json_body())
    if bool(request.until) == (request.duration is not None):
        raise bad_request("bad-parameter", "exactly one of until and duration is needed")
    if request.duration is not None:
        until = call.gateway.clock.now() + duration(request.duration, "duration")
    else:
        until = _time(request.until)
    body = {"pause_until": format_time(until)}
    return _paused(await call.gateway.js.call(f"CONSUMER.PAUSE.{path}", body))


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise bad_request(
            "bad-parameter", f"until: {quoted(text)} is not an RFC 3339 time"
        ) from None


async def resume(call: Call) -> Response:
    """Resume the deliveries of a paused consumer."""
    path = _path(call)
    await call.no_body()
    return _paused(await call.gateway.js.call(f"CONSUMER.PAUSE.{path}"))


def _paused(reply: dict[str, Any]) -> Response:
    if not reply.get("paused"):
        reply = {"paused": False}
    return json_response(reply)


async def unpin(call: Call) -> Response:
    """Unpin the client of a consumer's priority group, so that another client is pinned."""
    path = _path(call)
    request = struct(UnpinRequest, await call.json_body())
    await call.gateway.js.call(f"CONSUMER.UNPIN.{path}", {"group": request.group})
    return no_content()


async def reset(call: Call) -> Response:
    """Reset a consumer: it delivers again from a sequence or from its configured start."""
    path = _path(call)
    request = struct(ResetRequest, await call.json_body())
    # RESET of an unknown consumer gets no reply, while INFO reports the error.
    await call.gateway.js.call(f"CONSUMER.INFO.{path}")
    body = {"seq": request.seq} if request.seq else None
    reply = await call.gateway.js.call(f"CONSUMER.RESET.{path}", body)
    return json_response(reply, headers=entity_tags.tagged(reply))


def _path(call: Call) -> str:
    names = name(call.params["stream"], "stream"), name(call.params["consumer"], "consumer")
    return ".".join(names)
