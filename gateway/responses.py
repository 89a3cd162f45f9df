"""Responses that several handlers give."""

from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway import exchange

JSON = "application/json"
NDJSON = "application/x-ndjson"
_LINE = orjson.OPT_APPEND_NEWLINE  # a terminal shows its prompt on a line of its own


def json_response(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A JSON response; the `type` of API replies is left out."""
    if isinstance(value, dict):
        value.pop("type", None)
    return Response(orjson.dumps(value, option=_LINE), status, headers=headers, media_type=JSON)


def created(
    value: dict[str, Any], location: str, headers: dict[str, str] | None = None
) -> Response:
    """A 201 with the Location of what was created."""
    return json_response(value, 201, {"Location": location} | (headers or {}))


def location_of(*segments: str) -> str:
    """The path of a resource under /v1, for Location; names are percent-encoded."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def no_content(headers: dict[str, str] | None = None) -> Response:
    """A 204."""
    return Response(None, 204, headers=headers)


class PlainResponse(Response):
    """A response whose header lines are given as they are sent, but for the length.

    Nothing is encoded, looked up or checked, and all of it is one write where nothing stands
    between: for the answers that are asked for most. Names are in lower case.
    """

    def __init__(self, body: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if not exchange.answer(send, self.status_code, self.raw_headers, bytes(self.body)):
            await super().__call__(scope, receive, send)
