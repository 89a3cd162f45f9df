"""One HTTP request, as a handler receives it."""

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
"""Lowest rate of a body in bytes per second; slower ones would keep a request open for ever."""
_CHARSETS = ("utf-8", "utf8", "us-ascii")
T = TypeVar("T")
_JSON = ("application/json", "application/merge-patch+json")


class Call:
    """A request with checked parameters and a limited body."""

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
        """The request headers, by name in any case."""
        if self._headers is None:
            self._headers = Headers(scope=self.scope)
        return self._headers

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises Problem 413 if it is larger than `limit` bytes, Problem 408 if it comes too slowly,
        and Disconnected.
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
        """Await work, and cancel it when the client disconnects. Raises Disconnected.

        The body must be read before, or be ignored.
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

        `headers` finds the same, but needs a microsecond for a missing header.
        """
        for key, value in self.scope["headers"]:
            if key == name:
                return bytes(value)
        return b""

    def has(self, name: bytes) -> bool:
        """Return whether a header is present, by its name in lower case; its value may be empty."""
        return any(key == name for key, _ in self.scope["headers"])

    async def chunk(self, within: float) -> tuple[bytes, bool]:
        """Return the next piece of the body, and whether more follow.

        Raises Disconnected, and Problem 408 if nothing comes for `within` seconds.
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
        """Return the body. Raises Problem 415 if it is not empty and not declared as JSON."""
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
        """Wait for a loop tick of its own before decoding a large JSON body of `size` bytes."""
        if size > _LARGE_JSON_BYTES:
            await step_queue().wait()

    async def no_body(self) -> None:
        """Read the body, and raise Problem if there is one."""
        if await self.body(self.gateway.settings.json_body_max):
            raise bad_request("unexpected-body", "body: this operation has none")

    def media_type(self) -> str:
        """Return the media type of the body, in lower case and without parameters.

        Raises Problem 415 for charsets other than UTF-8, which would be decoded wrongly.
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
        """Return whether Accept contains this type (wildcards do not count)."""
        return media_type.encode() in self.header(b"accept").lower()

    def prefers(self, preference: str) -> bool:
        """Return whether `Prefer` contains this preference."""
        wanted = self.headers.get("prefer", "").lower().replace(" ", "")
        return preference in wanted.split(",")

    def refuse_encoding(self) -> None:
        """Raise Problem 415 for a compressed body, whose real size is unknown."""
        encoding = self.header(b"content-encoding")
        if encoding and encoding.strip().lower() not in (b"", b"identity"):
            sent = encoding[:100].decode("latin-1")
            detail = f"Content-Encoding: {sent!r}, only identity is supported"
            raise Problem(415, "unsupported-encoding", detail)


def read_query(raw: bytes, known: tuple[str, ...] | None) -> dict[str, str]:
    """Return the query parameters; `known` None: empty.

    Raises Problem for unknown and repeated parameters.
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
