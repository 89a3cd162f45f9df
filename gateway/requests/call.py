"""The HTTP request that a handler receives: parameters, headers, body and caller."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from core.runtime.step_queue import step_queue
from core.runtime.tasks import spawn, stop
from gateway.auth.caller import Caller
from gateway.formats.validation import percent_decoded
from gateway.http import uvicorn_parts
from gateway.http.disconnects import Disconnected
from gateway.http.problems import Problem, bad_request, quoted

_LARGE_JSON_BYTES = 32 * 1024
_LEAST_RATE = 1024
"""Minimum average rate of a request body, in bytes per second; slower bodies get a 408."""
_CHARSETS = ("utf-8", "utf8", "us-ascii")
T = TypeVar("T")
_JSON = ("application/json", "application/merge-patch+json")


class Call:
    """An HTTP request with its authenticated caller and checked path and query parameters."""

    __slots__ = ("_headers", "caller", "gateway", "params", "query", "receive", "scope")

    def __init__(
        self,
        caller: Caller,
        scope: Scope,
        receive: Receive,
        params: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self.caller = caller
        self.gateway = caller.gateway
        self.scope = scope
        self.receive = receive
        self.params = params
        self.query = query
        self._headers: Headers | None = None

    @property
    def headers(self) -> Headers:
        """The request headers; names are case-insensitive."""
        if self._headers is None:
            self._headers = Headers(scope=self.scope)
        return self._headers

    async def body(self, limit: int) -> bytes:
        """Read and return the whole body.

        Raises Problem 413 if it is larger than `limit` bytes, 408 if it arrives too slowly, 415 if
        it is compressed; Disconnected if the client disconnects.
        """
        self.refuse_encoding()
        there = uvicorn_parts.arrived_body(self.receive)
        if there is not None:
            if len(there) > limit:
                raise _too_large(limit)
            return there
        announced = self.header(b"content-length")
        if announced and int(announced) > limit:
            raise _too_large(limit)
        chunks: list[bytes] = []
        size = 0
        more = True
        idle = self.gateway.settings.body_idle_max
        time = asyncio.get_running_loop().time
        end = time() + idle
        while more:
            within = min(idle, end + size / _LEAST_RATE - time())
            chunk, more = await self.chunk(max(within, 0.0))
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def until_disconnected(self, work: Awaitable[T]) -> T:
        """Await `work` and return its result; cancel it if the client disconnects.

        Raises Disconnected in that case. Any unread request body is discarded.
        """
        try:
            async with asyncio.timeout(None) as waiting:
                watch = spawn(self._until_disconnect(waiting), name="disconnect watch")
                try:
                    return await work
                finally:
                    await stop(watch)
        except TimeoutError:
            if waiting.expired():
                raise Disconnected from None
            raise

    async def _until_disconnect(self, waiting: asyncio.Timeout) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        waiting.reschedule(0)

    def header(self, name: bytes) -> bytes:
        """Return the first value of a header, by its name in lower case; empty if it is missing.

        `headers` returns the same, but takes a microsecond longer for a missing header.
        """
        for key, value in self.scope["headers"]:
            if key == name:
                return bytes(value)
        return b""

    def has(self, name: bytes) -> bool:
        """Return True if a header, named in lower case, is present, even with an empty value."""
        return any(key == name for key, _ in self.scope["headers"])

    async def chunk(self, within: float) -> tuple[bytes, bool]:
        """Return the next chunk of the body, and True if more follow.

        Raises Problem 408 if no bytes arrive for `within` seconds, Disconnected if the client
        disconnects.
        """
        try:
            event = await self.gateway.deadlines.wait(self.receive(), within)
        except TimeoutError:
            detail = f"body: no bytes arrived for {within:.3g} s"
            raise Problem(408, "slow-body", detail, headers={"Connection": "close"}) from None
        if event["type"] == "http.disconnect":
            raise Disconnected
        return event.get("body", b""), event.get("more_body", False)

    async def json_body(self) -> bytes:
        """Read and return the body, which is JSON text or empty.

        Raises Problem 415 if it is not empty and Content-Type is not JSON; also as `body` does.
        """
        body = await self.body(self.gateway.settings.json_body_max)
        if body and self.media_type() not in _JSON:
            raise Problem(
                415,
                "unsupported-media-type",
                f"Content-Type: {quoted(self.media_type())}, expected application/json",
            )
        await self.wait_for_tick(len(body))
        return body

    async def wait_for_tick(self, size: int) -> None:
        """Before a JSON body of over 32 KiB is decoded, wait for a loop tick without other large
        work.

        `size` is the size of the body in bytes.
        """
        if size > _LARGE_JSON_BYTES:
            await step_queue().wait()

    async def no_body(self) -> None:
        """Read the body. Raises Problem 400 if it is not empty."""
        if await self.body(self.gateway.settings.json_body_max):
            raise bad_request("unexpected-body", "body: this operation has none")

    def media_type(self) -> str:
        """Return the media type in Content-Type, in lower case and without parameters.

        Raises Problem 415 for a charset other than UTF-8.
        """
        media_type, *parameters = self.headers.get("content-type", "").lower().split(";")
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "charset" and value.strip(' \t"') not in _CHARSETS:
                raise Problem(
                    415,
                    "unsupported-media-type",
                    f"Content-Type: {quoted(value.strip())}, the only charset is utf-8",
                )
        return media_type.strip()

    def accepts(self, media_type: str) -> bool:
        """Return True if the header Accept contains this media type; wildcards such as `*/*` do not
        count.
        """
        return media_type.encode() in self.header(b"accept").lower()

    def prefers(self, preference: str) -> bool:
        """Return True if the header `Prefer` (RFC 7240) contains this preference."""
        wanted = self.headers.get("prefer", "").lower().replace(" ", "")
        return preference in wanted.split(",")

    def refuse_encoding(self) -> None:
        """Raise Problem 415 for a compressed body: its uncompressed size is unknown."""
        encoding = self.header(b"content-encoding")
        if encoding and encoding.strip().lower() not in (b"", b"identity"):
            sent = encoding[:100].decode("latin-1")
            detail = f"Content-Encoding: {sent!r}, only identity is supported"
            raise Problem(415, "unsupported-encoding", detail)


def read_query(raw: bytes, known: tuple[str, ...] | None) -> dict[str, str]:
    """Parse a query string. If `known` is None, the result is empty and any parameter is allowed.

    Raises Problem 400 for an unknown or repeated parameter.
    """
    values: dict[str, str] = {}
    if known is None:
        return values
    for pair in raw.split(b"&") if raw else ():
        key, _, value = pair.partition(b"=")
        name = percent_decoded(key, "query")
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise bad_request(
                "unknown-parameter", f"query: unknown parameter {quoted(name)} (known: {allowed})"
            )
        if name in values:
            raise bad_request("repeated-parameter", f"query: parameter {name!r} occurs twice")
        values[name] = percent_decoded(value.replace(b"+", b"%20"), name)
    return values


def _too_large(limit: int) -> Problem:
    detail = f"body: larger than {limit} bytes"
    return Problem(413, "body-too-large", detail, headers={"Connection": "close"})
