"""CORS for pages of allowed origins: Starlette's middleware, with refusals as problem responses."""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Send

from gateway.http.problems import Problem, respond

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SAFELISTED = frozenset(
    (
        b"cache-control",
        b"content-language",
        b"content-length",
        b"content-type",
        b"expires",
        b"last-modified",
        b"pragma",
    )
)
"""Response headers that a page may read without permission (Fetch, "CORS-safelisted")."""
_HIDDEN = (b"access-control-", b"set-cookie", b"vary")
"""Prefixes of response headers that only the browser uses; they are not exposed to pages."""


class Cors(CORSMiddleware):
    """CORS middleware for exact origins, with credentials.

    Any request header is allowed, because clients choose the names of `Nats-H-*`.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...], exposed: Iterable[str]) -> None:
        """Allow requests from pages of these origins.

        Args:
            app: The wrapped application.
            origins: Origins of the allowed pages.
            exposed: Response headers that every response exposes to the page. A browser may apply
                the list of a `304` to the stored body of an older response. Each response also
                exposes its own headers, because publishers choose the names of message headers.
        """
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=_METHODS,
            allow_headers=("*",),
            allow_credentials=True,
        )

        self._exposed = tuple(exposed)
        self._known = frozenset(name.lower().encode() for name in exposed) | _SAFELISTED

    async def send(self, message: Message, send: Send, request_headers: Headers) -> None:
        """Send a message of a response; expose all its headers to a page of an allowed origin."""
        if message["type"] == "http.response.start":
            origin = request_headers.get("origin")
            if origin is not None and self.is_allowed_origin(origin=origin):
                raw = message.setdefault("headers", [])
                names = {name: None for name, _ in raw if self._is_more(name.lower())}
                shown = ", ".join((*self._exposed, *(name.decode() for name in names)))
                MutableHeaders(scope=message)["access-control-expose-headers"] = shown
        await super().send(message, send, request_headers)

    def _is_more(self, name: bytes) -> bool:
        return name not in self._known and not name.startswith(_HIDDEN)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a CORS preflight request: 204 if it is allowed, else 403."""
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
