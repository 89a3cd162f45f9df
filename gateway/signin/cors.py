"""Pages of other origins, where they are allowed: Starlette's CORS, with refusals as problems."""

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.problems import Problem, respond

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EXPOSED = (
    "Allow",
    "Content-Range",
    "ETag",
    "Idempotency-Replayed",
    "Js-Created",
    "Js-Delivered",
    "Js-Headers-Omitted",
    "Js-Last-Event-ID",
    "Js-Pending",
    "Js-Reason",
    "Js-Revision",
    "Js-Token",
    "Last-Modified",
    "Link",
    "Location",
    "Nats-Sequence",
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Time-Stamp",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "WWW-Authenticate",
)
"""Response headers that pages may read; messages' own headers are in the JSON form."""


class Cors(CORSMiddleware):
    """Exact origins alone, credentials included; any request header, for `Nats-H-*` are many."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=_METHODS,
            allow_headers=("*",),
            allow_credentials=True,
            expose_headers=EXPOSED,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Allow a page to ask, or answer 403."""
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            response.status_code = 204
            response.body = b""
            del response.headers["content-length"]
            del response.headers["content-type"]
            return response
        refused = bytes(response.body).decode()
        headers = {"Vary": response.headers["vary"]}
        return respond(Problem(403, "cors-refused", refused, headers=headers), "")
