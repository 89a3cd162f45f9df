"""One HTTP request as a handler sees it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from core.client import Client, JetStream
from gateway.metrics import Metrics
from gateway.observations import Observe
from gateway.problems import Problem, bad_request
from gateway.settings import Settings
from gateway.tokens import AckTokens
from gateway.validation import percent_decoded

# A body that is too large is read to its end up to here: an answer before that would meet a caller
# that still sends, and the reset of its connection would hide the answer.
_DRAIN_MAX = 16 << 20
_JSON = ("application/json", "application/merge-patch+json")


class Disconnected(Exception):
    """The caller went away; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """What handlers work with."""

    settings: Settings
    client: Client
    js: JetStream
    publisher: JetStream
    metrics: Metrics
    tokens: AckTokens
    observe: Observe
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)


class Call:
    """A request: parameters checked for form, the body under a limit."""

    __slots__ = ("gateway", "headers", "params", "query", "receive", "scope")

    def __init__(
        self,
        gateway: Gateway,
        scope: Scope,
        receive: Receive,
        params: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self.gateway = gateway
        self.scope = scope
        self.receive = receive
        self.params = params
        self.query = query
        self.headers = Headers(scope=scope)

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises Problem 413 when it is larger than `limit` bytes."""
        self.refuse_encoding()
        announced = self.headers.get("content-length", "0")
        size = int(announced) if announced.isdigit() and len(announced) < 20 else 0
        if size > limit and (size > _DRAIN_MAX or "expect" in self.headers):
            raise _too_large(limit)
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            chunk, more = await self.chunk(self.gateway.settings.body_idle_max)
            size += len(chunk)
            if size <= limit:
                chunks.append(chunk)
            elif size > _DRAIN_MAX:
                raise _too_large(limit)
        if size > limit:
            raise _too_large(limit)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def chunk(self, within: float) -> tuple[bytes, bool]:
        """The next piece of the body, and whether more follow.

        Raises Disconnected, and Problem 408 when nothing comes for so many seconds.
        """
        try:
            async with asyncio.timeout(within):
                event = await self.receive()
        except TimeoutError:
            detail = f"body: nothing came for {within:g} s"
            raise Problem(408, "slow-body", detail, headers={"Connection": "close"}) from None
        if event["type"] == "http.disconnect":
            raise Disconnected
        return event.get("body", b""), event.get("more_body", False)

    async def json_body(self) -> bytes:
        """A body that must be declared as JSON when it is not empty."""
        body = await self.body(self.gateway.settings.json_body_max)
        if body and self.media_type() not in _JSON:
            raise Problem(415, "unsupported-media-type", "Content-Type: application/json is needed")
        return body

    async def no_body(self) -> None:
        """Read and refuse a body where none has a meaning."""
        if await self.body(self.gateway.settings.json_body_max):
            raise bad_request("unexpected-body", "this request has no body")

    def media_type(self) -> str:
        """The type of the body, lower case and without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def accepts(self, media_type: str) -> bool:
        """Whether the caller names this type in Accept (wildcards do not count)."""
        return media_type in self.headers.get("accept", "").lower()

    def prefers(self, preference: str) -> bool:
        """Whether `Prefer` has this preference."""
        wanted = self.headers.get("prefer", "").lower().replace(" ", "")
        return preference in wanted.split(",")

    def refuse_encoding(self) -> None:
        """Raise Problem 415 for a compressed body: what it inflates to cannot be known."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise Problem(415, "unsupported-encoding", "Content-Encoding: only identity")


def read_query(raw: bytes, known: tuple[str, ...] | None) -> dict[str, str]:
    """The query parameters; `known` None: none are read. Raises Problem for unknown and repeated
    ones."""
    values: dict[str, str] = {}
    if known is None:
        return values
    for pair in raw.split(b"&") if raw else ():
        key, _, value = pair.partition(b"=")
        name = percent_decoded(key, "query")
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise bad_request("unknown-parameter", f"query: {name!r} (known: {allowed})")
        if name in values:
            raise bad_request("repeated-parameter", f"query: {name!r} is there twice")
        values[name] = percent_decoded(value.replace(b"+", b"%20"), name)
    return values


def _too_large(limit: int) -> Problem:
    detail = f"body: larger than {limit} bytes"
    return Problem(413, "body-too-large", detail, headers={"Connection": "close"})
