"""The services that handlers of HTTP requests use, over one connection to the NATS server."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from core.client import Client, JetStream
from core.runtime.clock import Clock
from gateway.formats.ack_tokens import AckTokens
from gateway.http.deadlines import Deadlines
from gateway.monitoring.events import ReportEvent
from gateway.monitoring.metrics import Metrics
from gateway.readers.shared import Feeds
from gateway.settings import Settings


class Reference(Protocol):
    """The API reference that the HTTP server shows: OpenAPI, AsyncAPI and HTML pages.

    `gateway.contract` generates it.
    """

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
        """The HTML page of all HTTP operations."""
        ...

    @property
    def problems(self) -> str:
        """The HTML page of all kinds of problems (error responses, RFC 9457)."""
        ...

    def problem(self, kind: str) -> str | None:
        """Return the HTML page of one kind of problem; None if the kind is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """The services that handlers of HTTP requests use, over one NATS connection.

    `client`, `js`, `publisher` and `feeds` belong to that connection, and so to one principal. The
    other services are shared by all callers.
    """

    settings: Settings
    client: Client
    js: JetStream
    publisher: JetStream
    metrics: Metrics
    tokens: AckTokens
    report_event: ReportEvent
    reference: Reference
    clock: Clock
    feeds: Feeds
    trouble: Callable[[], str] = lambda: ""
    """Returns the reason why no message can be stored now; empty if storage works."""
    server: Feeds | None = None
    """Feeds over a connection with all permissions; None if there is no such connection.

    They serve /readyz, and callers that may read every message of a feed. If it is None, each
    caller reads over its own connection, with its own permissions.
    """
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    deadlines: Deadlines = field(default_factory=Deadlines)
