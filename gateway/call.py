"""One HTTP request as a handler sees it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from core.client import Client, JetStream
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.runtime.turns import turns
from gateway import exchange
from gateway.console.files import Console
from gateway.feeds.feeds import Feeds
from gateway.metrics import Metrics
from gateway.observations import Observe
from gateway.patience import Patience
from gateway.problems import Problem, bad_request
from gateway.settings import Settings
from gateway.signin.credentials import Credentials
from gateway.signin.endings import Ending, Endings, OnEnd
from gateway.signin.kept import SignIn
from gateway.signin.rates import Quota
from gateway.signin.rights import Rights
from gateway.signin.sessions import Session
from gateway.tokens import AckTokens
from gateway.validation import percent_decoded

_LARGE_JSON_BYTES = 32 * 1024
_LEAST_RATE = 1024
"""Bytes a second of a body: one now and then would hold a request for ever."""
_CHARSETS = ("utf-8", "utf8", "us-ascii")
T = TypeVar("T")
_JSON = ("application/json", "application/merge-patch+json")


class Disconnected(Exception):
    """The caller went away; there is nobody to answer."""


class Reference(Protocol):
    """What describes the operations (`gateway.contract`)."""

    @property
    def openapi(self) -> bytes:
        """The OpenAPI document."""
        ...

    @property
    def asyncapi(self) -> bytes:
        """The AsyncAPI document."""
        ...

    @property
    def page(self) -> str:
        """The reference as a page."""
        ...

    @property
    def problems(self) -> str:
        """The page of all problems."""
        ...

    def problem(self, kind: str) -> str | None:
        """The page of one kind of problem; None where there is none of that name."""
        ...


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
    reference: Reference
    clock: Clock
    feeds: Feeds
    trouble: Callable[[], str] = lambda: ""
    """Why nothing can be stored now; empty: it can."""
    server: Feeds | None = None
    """Feeds over a connection that may do everything, for who may read what they have, and for
    /readyz; None: there is none, and everybody reads with what he may do himself."""
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    patience: Patience = field(default_factory=Patience)
    console: Console = field(default_factory=Console)


@dataclass(slots=True, eq=False)
class Caller:
    """Who asks, for as long as his request or socket lasts. Made by the door (`gateway.door`).

    Attributes:
        gateway: what serves him, over his own connection.
        sign_in: sessions, tickets, rates.
        key: what limits are counted by.
        name: what may be shown of him; empty where the server knows no users.
        credentials: what he is known by; None where the server knows no users.
        session: the session that let him in.
        can_ask: whether answers of the server reach him; else he can only be sent messages.
        rights: what the core says that he may do; None: everything, or it is not known beforehand.
        quota: what is left of his rate limit, if there is one.
    """

    gateway: Gateway
    sign_in: SignIn
    key: bytes = b""
    name: str = ""
    credentials: Credentials | None = None
    session: Session | None = None
    can_ask: bool = True
    rights: Rights | None = None
    quota: Quota | None = None
    endings: tuple[Endings, ...] = ()

    @property
    def ended(self) -> Ending | None:
        """Why he is no longer who he was let in as; None: he is."""
        for endings in self.endings:
            if endings.reason is not None:
                return endings.reason
        return None

    def on_end(self, call: OnEnd) -> Callable[[], None]:
        """Call this once when he is no longer who he was let in as; at once if that is so already.

        Returns what takes that back, to be called when the response or socket has ended.
        """
        if not self.endings:
            return _nothing
        is_told = False

        def once(reason: Ending) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                call(reason)

        for endings in self.endings:
            endings.add(once)

        def take_back() -> None:
            for endings in self.endings:
                endings.discard(once)

        return take_back


class Call:
    """A request: parameters checked for form, the body under a limit."""

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
        """The headers of the request, by name in any case."""
        if self._headers is None:
            self._headers = Headers(scope=self.scope)
        return self._headers

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises Problem 413 when it is larger than `limit` bytes."""
        self.refuse_encoding()
        there = exchange.take_body(self.receive)
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

    async def while_there(self, work: Awaitable[T]) -> T:
        """Wait for something, and give it up when the caller leaves. Raises Disconnected.

        The body has to be read, or not wanted.
        """
        try:
            async with asyncio.timeout(None) as waiting:
                watch = spawn(self._until_gone(waiting), name="disconnect watch")
                try:
                    return await work
                finally:
                    await stop(watch)
        except TimeoutError:
            if waiting.expired():
                raise Disconnected from None
            raise

    async def _until_gone(self, waiting: asyncio.Timeout) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        waiting.reschedule(0)

    def header(self, name: bytes) -> bytes:
        """The first value of a header, by its name in lower case; empty when it is not there.

        `headers` finds the same, and spends a microsecond on what is not there.
        """
        for key, value in self.scope["headers"]:
            if key == name:
                return bytes(value)
        return b""

    def has(self, name: bytes) -> bool:
        """Whether a header is there, by its name in lower case; it may be empty."""
        return any(key == name for key, _ in self.scope["headers"])

    async def chunk(self, within: float) -> tuple[bytes, bool]:
        """The next piece of the body, and whether more follow.

        Raises Disconnected, and Problem 408 when nothing comes for so many seconds.
        """
        try:
            event = await self.gateway.patience.wait(self.receive(), within)
        except TimeoutError:
            detail = f"body: nothing came for {within:.3g} s"
            raise Problem(408, "slow-body", detail, headers={"Connection": "close"}) from None
        if event["type"] == "http.disconnect":
            raise Disconnected
        return event.get("body", b""), event.get("more_body", False)

    async def json_body(self) -> bytes:
        """A body that must be declared as JSON when it is not empty."""
        body = await self.body(self.gateway.settings.json_body_max)
        if body and self.media_type() not in _JSON:
            raise Problem(415, "unsupported-media-type", "Content-Type: application/json is needed")
        await self.turn_for(len(body))
        return body

    async def turn_for(self, size: int) -> None:
        """Wait for a turn to read a large piece of JSON; others read theirs in other ticks."""
        if size > _LARGE_JSON_BYTES:
            await turns().wait()

    async def no_body(self) -> None:
        """Read and refuse a body where none has a meaning."""
        if await self.body(self.gateway.settings.json_body_max):
            raise bad_request("unexpected-body", "this request has no body")

    def media_type(self) -> str:
        """The type of the body, lower case and without parameters.

        Raises Problem 415 for text of another charset than UTF-8, which would be read wrongly.
        """
        media_type, *parameters = self.headers.get("content-type", "").lower().split(";")
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "charset" and value.strip(' \t"') not in _CHARSETS:
                raise Problem(415, "unsupported-media-type", "Content-Type: only charset=utf-8")
        return media_type.strip()

    def accepts(self, media_type: str) -> bool:
        """Whether the caller names this type in Accept (wildcards do not count)."""
        return media_type.encode() in self.header(b"accept").lower()

    def prefers(self, preference: str) -> bool:
        """Whether `Prefer` has this preference."""
        wanted = self.headers.get("prefer", "").lower().replace(" ", "")
        return preference in wanted.split(",")

    def refuse_encoding(self) -> None:
        """Raise Problem 415 for a compressed body: what it inflates to cannot be known."""
        encoding = self.header(b"content-encoding")
        if encoding and encoding.strip().lower() not in (b"", b"identity"):
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


def _nothing() -> None:
    """There is nothing to take back."""


def _too_large(limit: int) -> Problem:
    detail = f"body: larger than {limit} bytes"
    return Problem(413, "body-too-large", detail, headers={"Connection": "close"})
