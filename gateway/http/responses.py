"""HTTP responses that several handlers use: JSON, 201, 204, Location."""

from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.http import uvicorn_parts

JSON = "application/json"
NDJSON = "application/x-ndjson"
_LINE = orjson.OPT_APPEND_NEWLINE  # so that the prompt of a terminal is on a line of its own


def json_response(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a JSON response; the member `type` of JetStream replies is removed."""
    if isinstance(value, dict):
        value.pop("type", None)
    return Response(orjson.dumps(value, option=_LINE), status, headers=headers, media_type=JSON)


def created(
    value: dict[str, Any], location: str, headers: dict[str, str] | None = None
) -> Response:
    """Return a 201 with a JSON body and the Location of the new resource."""
    return json_response(value, 201, {"Location": location} | (headers or {}))


def location_of(*segments: str) -> str:
    """Return the path of a resource under /v1, for Location; names are percent-encoded."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def no_content(headers: dict[str, str] | None = None) -> Response:
    """Return a 204 response."""
    return Response(None, 204, headers=headers)


class PlainResponse(Response):
    """A response for the most frequent operations, with raw header lines; content-length is added.

    Header names must be in lower case; nothing is encoded or checked. Without a middleware in
    between, the response is one write.
    """

    def __init__(self, body: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        if not uvicorn_parts.send_response(
            send, self.status_code, self.raw_headers, bytes(self.body)
        ):
            await super().__call__(scope, receive, send)
