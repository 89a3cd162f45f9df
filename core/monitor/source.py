"""Where the pages of the monitoring port take their values from."""

import os
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from core.pubsub.server import Connection, Hub
from core.runtime.clock import Clock
from core.transport.session import ClientSession


@dataclass(slots=True, kw_only=True)
class About:
    """What a server was told: settings that are shown and nowhere else kept. Times in seconds."""

    http_host: str = ""
    http_port: int = 0
    http_base_path: str = ""
    auth_timeout: float = 2.0
    lame_duck_duration: float = 120.0
    max_closed_clients: int = 10000
    config_digest: str = ""
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    jetstream: dict[str, Any] | None = None
    """The block `config` of JetStream; None when it is off."""
    websocket: dict[str, Any] = field(default_factory=dict)


class Api(Protocol):
    """Counters of API requests."""

    total: int
    errors: int


@dataclass(slots=True, kw_only=True)
class JetStream:
    """The streams of the node (`core.jetstream.registry.Registry`) and its API's counters."""

    registry: Any
    api: Api


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection that is gone: when, and what it was (a dictionary as connz shows it)."""

    account: str
    stopped: int
    shown: dict[str, Any]
    user: str


class Source:
    """Everything the pages read."""

    def __init__(self, about: About, hub: Hub, clock: Clock, started: int = 0) -> None:
        """`started`: when the server did, if that is not now."""
        self.about = about
        self.hub = hub
        self.clock = clock
        self.jetstream: JetStream | None = None
        self.requests: Counter[str] = Counter()
        self.started = started or clock.now()
        self.config_loaded = self.started
        self.closed: deque[Closed] = deque(maxlen=max(about.max_closed_clients, 1))
        self.cpu_seen: tuple[int, float] = (clock.monotonic(), sum(os.times()[:2]))

    @property
    def head(self) -> dict[str, Any]:
        """What most pages begin with."""
        return {"server_id": self.hub.server_id, "now": moment(self.clock.now())}

    def watch(self, hub: Hub) -> None:
        """Read from this hub from now on, and keep what leaves it."""
        self.hub = hub
        hub.on_leave = self._left

    def _left(self, session: Connection) -> None:
        from core.monitor.connz import describe  # it needs this module

        if isinstance(session, ClientSession):
            now = self.clock.now()
            shown = describe(session, now, stopped=True)
            self.closed.append(Closed(session.account.name, now, shown, session.user))


def moment(nanos: int) -> str:
    """A time as Go prints it in JSON."""
    if not nanos:
        return "0001-01-01T00:00:00Z"
    seconds, rest = divmod(nanos, 1_000_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def age(nanos: int) -> str:
    """An uptime: `1s`, `2m5s`, `1h0m3s`, `3d0h0m1s`."""
    seconds = max(nanos, 0) // 1_000_000_000
    parts: list[str] = []
    for unit, size in (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(parts) + f"{seconds}s"
