"""One HTTP request, as a handler receives it."""

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
"""Lowest rate of a body in bytes per second; slower ones would keep a request open for ever."""
_CHARSETS = ("utf-8", "utf8", "us-ascii")
T = TypeVar("T")
_JSON = ("application/json", "application/merge-patch+json")


class Disconnected(Exception):
    """The client has disconnected; no response is possible."""


class Reference(Protocol):
    """The documents and pages of the contract (`gateway.contract`)."""

    @property
    def openapi(self) -> bytes:
        """The OpenAPI document as JSON."""
        ...

    @property
    def asyncapi(self) -> bytes:
        """The AsyncAPI document as JSON."""
        ...

    @property
    def page(self) -> str:
        """The HTML page of all operations."""
        ...

    @property
    def problems(self) -> str:
        """The HTML page of all problems."""
        ...

    def problem(self, kind: str) -> str | None:
        """Return the HTML page of one kind of problem, or None if the kind is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """The services that handlers use."""

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
    """Returns the reason why nothing can be stored now; empty: storage works."""
    server: Feeds | None = None
    """Feeds over a connection with all permissions; None: there is no such connection.

    They serve callers that may read everything in a feed, and /readyz. Without them, each caller
    reads with its own permissions.
    """
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    patience: Patience = field(default_factory=Patience)
    console: Console = field(default_factory=Console)


@dataclass(slots=True, eq=False)
class Caller:
    """The caller of a request or socket, as long as that is open. `gateway.door` makes it.

    Attributes:
        gateway: The services over the caller's own connection.
        sign_in: Sessions, tickets, rate limits.
        key: The key that limits are counted by.
        name: A name that may be shown; empty if the server has no users.
        credentials: The verified credentials; None if the server has no users.
        session: The session that authenticated the caller, if any.
        can_ask: False if the caller may not subscribe to an inbox, and so gets no replies.
        rights: The caller's permissions; None: all, or they are not known in advance.
        quota: The rest of the rate limit; None: there is no limit.
        endings: Events that end the caller's rights.
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
        """The reason why the caller lost its rights; None: it has them."""
        for endings in self.endings:
            if endings.reason is not None:
                return endings.reason
        return None

    def on_end(self, call: OnEnd) -> Callable[[], None]:
        """Register a callback for the loss of the caller's rights; if they are lost, call it now.

        The callback is called once. Return a function that unregisters it, for the end of the
        response or socket.
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
        """Await work, and cancel it when the client disconnects. Raises Disconnected.

        The body must be read before, or be ignored.
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
            event = await self.gateway.patience.wait(self.receive(), within)
        except TimeoutError:
            detail = f"body: nothing came for {within:.3g} s"
            raise Problem(408, "slow-body", detail, headers={"Connection": "close"}) from None
        if event["type"] == "http.disconnect":
            raise Disconnected
        return event.get("body", b""), event.get("more_body", False)

    async def json_body(self) -> bytes:
        """Return the body. Raises Problem 415 if it is not empty and not declared as JSON."""
        body = await self.body(self.gateway.settings.json_body_max)
        if body and self.media_type() not in _JSON:
            raise Problem(415, "unsupported-media-type", "Content-Type: application/json is needed")
        await self.turn_for(len(body))
        return body

    async def turn_for(self, size: int) -> None:
        """Wait for a loop tick of its own before decoding a large JSON body of `size` bytes."""
        if size > _LARGE_JSON_BYTES:
            await turns().wait()

    async def no_body(self) -> None:
        """Read the body, and raise Problem if there is one."""
        if await self.body(self.gateway.settings.json_body_max):
            raise bad_request("unexpected-body", "this request has no body")

    def media_type(self) -> str:
        """Return the media type of the body, in lower case and without parameters.

        Raises Problem 415 for charsets other than UTF-8, which would be decoded wrongly.
        """
        media_type, *parameters = self.headers.get("content-type", "").lower().split(";")
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "charset" and value.strip(' \t"') not in _CHARSETS:
                raise Problem(415, "unsupported-media-type", "Content-Type: only charset=utf-8")
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
            raise Problem(415, "unsupported-encoding", "Content-Encoding: only identity")


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
            raise bad_request("unknown-parameter", f"query: {name!r} (known: {allowed})")
        if name in values:
            raise bad_request("repeated-parameter", f"query: {name!r} is there twice")
        values[name] = percent_decoded(value.replace(b"+", b"%20"), name)
    return values


def _nothing() -> None:
    """Stand in for a function that unregisters a callback."""


def _too_large(limit: int) -> Problem:
    detail = f"body: larger than {limit} bytes"
    return Problem(413, "body-too-large", detail, headers={"Connection": "close"})
