"""The services that handlers use, over one connection to the server."""

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
    report_event: ReportEvent
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
    deadlines: Deadlines = field(default_factory=Deadlines)
