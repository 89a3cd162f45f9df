"""HTTP requests to one server: error responses become exceptions, writes are repeated."""

import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from jetgate_client.errors import (
    ConnectionLost,
    JetgateError,
    OutcomeUnknown,
    TooManyRequests,
    is_passing,
    problem_of,
    too_large,
)
from jetgate_client.iteration import Iteration, Iterations
from jetgate_client.retrying import Backoff, Retry

T = TypeVar("T")

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"


_SURELY_TAKEN = 262_144
"""Size in bytes up to which a message is sent without a request for the server's limit."""
_LIMIT_KNOWN_S = 60.0
"""Seconds for which the server's limit of a message is cached; its configuration may change."""


def path_of(*segments: str, verb: str = "") -> str:
    """Return a path below /v1 with percent-encoded segments, and `:verb` at its end if set.

    Raises ValueError for the names "." and "..", because URLs resolve them.
    """
    if any(name in (".", "..") for name in (segments[:-1] if verb else segments)):
        raise ValueError('"." and ".." cannot be names in a URL')
    path = "/".join(["/v1", *(quote(segment, safe="") for segment in segments)])
    return f"{path}:{verb}" if verb else path


_ETAG = re.compile(r'(?:W/)?"([0-9]+)"')


def revision_of(headers: httpx.Headers, path: str) -> int:
    """Return the revision in the ETag of a response; it may be weak, because a proxy compressed it.

    Raises JetgateError without an ETag, because a proxy removed it.
    """
    found = _ETAG.fullmatch(headers.get("ETag", ""))
    if found is None:
        raise JetgateError(f"{path}: no ETag came, so its revision is not known")
    return int(found[1])


async def _refuse(response: httpx.Response) -> None:
    if response.is_error:
        await response.aread()
        raise problem_of(response)


class Bearer(httpx.Auth):
    """Authentication by a bearer token, or by a function that returns one for each request."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._token if isinstance(self._token, str) else self._token()
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


class Transport:
    """HTTP requests to one server, with the client's credentials and retries.

    Attributes:
        http: The httpx client; it raises Problem for error responses.
        retry: Waits between attempts, and limits of retries.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None,
        retry: Retry,
        timeout: float,
        verify: Any,
    ) -> None:
        self.retry = retry
        self._timeout = timeout
        self._auth = auth
        self._verify = verify
        self._iterations = Iterations()
        self._limit: int | None = None
        self._limit_known_until = 0.0
        self.http = httpx.AsyncClient(
            base_url=url,
            auth=auth,
            headers={"Accept": JSON},
            timeout=timeout,
            verify=verify,
            # Every feed holds a connection as long as it lasts, so their number is unlimited.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            event_hooks={"response": [_refuse]},
        )

    @property
    def socket_url(self) -> str:
        """The URL for WebSockets of the server."""
        url = self.http.base_url
        scheme = "wss" if url.scheme == "https" else "ws"
        return str(url.copy_with(scheme=scheme, path="/v1/ws"))

    @property
    def socket_ssl(self) -> ssl.SSLContext | None:
        """The TLS context for WebSockets; None if the server's URL is not https."""
        if self.http.base_url.scheme != "https":
            return None
        return httpx.create_ssl_context(verify=self._verify)

    def authorization(self) -> dict[str, str]:
        """Return the header Authorization for a request; {} without credentials."""
        if self._auth is None:
            return {}
        asked = next(self._auth.auth_flow(httpx.Request("GET", self.http.base_url)))
        return {"Authorization": asked.headers["Authorization"]}

    def tracked(self, generator: AsyncGenerator[T, None]) -> Iteration[T]:
        """Return an iteration over a generator, which `aclose` of this transport ends."""
        return Iteration(self._iterations, generator)

    async def aclose(self) -> None:
        """End open iterations, and close the connections."""
        await self._iterations.aclose()
        await self.http.aclose()

    async def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request once, and return the response.

        Raises Problem for an error response, ConnectionLost without a response.
        """
        try:
            return await self.http.request(method, path, **request)
        except httpx.TransportError as error:
            raise ConnectionLost(f"{method} {path}: {error or type(error).__name__}") from error

    async def refuse_large(self, size: int) -> None:
        """Raise the Problem 413 for a message of `size` bytes that exceeds the server's limit.

        The check precedes the request, because the answer to a large body may be lost: it arrives
        while the body is still being sent. If the limit cannot be read, nothing is raised.
        """
        if size <= _SURELY_TAKEN:
            return
        if time.monotonic() > self._limit_known_until:
            try:
                told = (await self.send("GET", path_of("session"))).json()
            except JetgateError:
                self._limit = None
            else:
                self._limit = told.get("max_payload")
                self._limit_known_until = time.monotonic() + _LIMIT_KNOWN_S
        if self._limit is not None and size > self._limit:
            raise too_large(size, self._limit)

    async def repeat(
        self,
        method: str,
        path: str,
        *,
        what: str,
        until: float | None = None,
        before: Callable[[int], Awaitable[None]] | None = None,
        **request: Any,
    ) -> httpx.Response:
        """Send a request until the server answers, and return the response.

        Args:
            `what`: Id in OutcomeUnknown, by which the server recognises a repetition.
            until: Deadline, in seconds of the event loop's clock; None: that of `retry`.
            before: Awaited before each attempt, with its number from 0; may raise to end the
                attempts.

        Raises Problem for an error that a retry cannot cure, OutcomeUnknown after the deadline.
        """
        backoff = Backoff(self.retry)
        until = self.retry.deadline() if until is None else until
        unknown = False
        for attempt in count():
            try:
                if before is not None:
                    await before(attempt)
                return await self.send(method, path, **request)
            except JetgateError as error:
                if not is_passing(error):
                    raise
                unknown = unknown or not isinstance(error, TooManyRequests)
                if not await backoff.wait(error, until=until):
                    if unknown:
                        raise OutcomeUnknown(what) from error
                    raise
        raise AssertionError("attempts have no end")

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, silence: float, **request: Any
    ) -> AsyncIterator["Answer"]:
        """Send a request once, and yield the response, whose body is read while it arrives.

        `silence` is the maximum time without data, in seconds. Raises Problem for an error
        response, ConnectionLost if the connection fails.
        """
        timeout = httpx.Timeout(self._timeout, read=silence)
        try:
            async with self.http.stream(method, path, timeout=timeout, **request) as response:
                yield Answer(response)
        except httpx.TransportError as error:
            raise ConnectionLost(f"{method} {path}: {error or type(error).__name__}") from error


class Answer:
    """A response whose body is read while it arrives."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response

    def pieces(self) -> AsyncIterator[bytes]:
        """Return an iterator over the bytes of the body as they arrive."""
        return self._response.aiter_bytes()

    async def lines(self) -> AsyncIterator[list[str]]:
        """Yield lists of lines that arrived together, without line ends.

        Only line feeds end a line: JSON strings may contain Unicode's other separators. Text after
        the last line feed is incomplete and left out.
        """
        rest = b""
        async for piece in self._response.aiter_bytes():
            *whole, rest = (rest + piece).split(b"\n")
            if whole:
                yield [line.decode().removesuffix("\r") for line in whole]
