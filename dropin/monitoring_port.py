"""The monitoring port: a small HTTP/1.1 server for the pages of `core.monitor`, such as /varz.

It reads no request bodies. Connections are kept alive. Each serves one request at a time, and the
server answers one request per tick of the event loop. The server is a separate one, because the
HTTP gateway would slow down the start.
"""

import asyncio
import contextlib
import logging
import shutil
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from core.config.addresses import listen
from core.errors import OperatorError
from core.monitor.pages import Page, serve
from core.monitor.query import PageQuery
from core.monitor.source import About, JetStreamSource, MonitoringSource
from core.node.server import Server
from core.runtime.clock import Clock
from core.runtime.step_queue import step_queue
from core.units import NANOS_PER_SECOND, Seconds
from dropin.config.options import JetStreamOptions, Options
from dropin.config.websocket import websocket_of
from dropin.monitoring_access import Access
from dropin.ports_file import join

if TYPE_CHECKING:  # a start without JetStream must not import these
    from core.cluster.view import ClusterView
    from core.node.publish_gate import PublishGate
    from core.node.runtime import JetStreamRuntime

log = logging.getLogger(__name__)

_IDLE_S = 60.0
_HEAD_S = 20.0
_START_S = 30.0
_HEAD_MAX = 16 * 1024
_WRONG_HOST = b"Host is no name of this server (http_allowed_hosts)"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    421: "Misdirected Request",
    503: "Service Unavailable",
}


class Monitor:
    """The HTTP server of the monitoring pages.

    Life cycle: `start`, `watch` before clients connect, `show` when streams are served, `stop`.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._started = clock.now()
        self._source: MonitoringSource | None = None
        self._shown = asyncio.Event()
        self._nats: Server
        self._access: Access
        self._address = ""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.host = options.http_host or options.host
        self.port = 0

    async def start(self) -> None:
        """Open the port. Until `show`, requests wait up to 30 seconds, and `/healthz` answers 503.

        Raises OperatorError if the port is invalid or cannot be opened.
        """
        port = 0 if self._options.http_port == -1 else self._options.http_port
        try:
            if not 0 <= port <= 65535:
                raise OperatorError(f"listen tcp: address {port}: invalid port")
            listening = listen(self.host, port, "HTTP")
        except OperatorError as error:
            cause = error.__cause__
            reason = f"listen tcp {join(self.host, port)}: bind: {getattr(cause, 'strerror', '')}"
            raise OperatorError(
                "Can't start monitoring: can't listen to the monitor port: "
                + (reason.lower() if cause is not None else str(error))
            ) from error
        self._address, self.port = listening.getsockname()[:2]
        self._access = Access(self._options, self._address)
        self._server = await asyncio.start_server(self._client, sock=listening, limit=_HEAD_MAX)
        log.info("Starting http monitor on %s", join(self.host, self.port))

    def watch(self, server: Server, cluster: "ClusterView | None") -> None:
        """Record the connections of a server, so that the pages show closed ones, too.

        Args:
            server: The NATS server.
            cluster: The nodes of the shared database; None for an embedded one.
        """
        self._nats = server
        about = _about(self._options, server)
        self._source = MonitoringSource(about, server.hub, self._clock, self._started)
        self._source.watch(server.hub)
        self._source.mesh, self._source.cluster = server.mesh, cluster

    def show(self, runtime: "JetStreamRuntime | None", gate: "PublishGate") -> None:
        """Answer requests for pages from now on.

        Args:
            runtime: The streams in memory (`core.node.runtime`); None if this server owns none.
            gate: Knows whether each stream has a reachable leader.
        """
        assert self._source is not None, "watch comes first"
        if runtime is not None:
            self._source.jetstream = JetStreamSource(registry=runtime.registry, api=runtime.api)
        elif self._options.jetstream.enabled:
            self._source.stand_by()
        if self._options.jetstream.enabled and self._options.jetstream.is_given:
            self._source.has_leader = lambda: gate.is_open
        self._shown.set()

    def reloaded(self, options: Options) -> None:
        """Show the reloaded options in the monitoring pages, and apply their access rules."""
        self._options = options
        self._access = Access(options, self._address)
        if self._source is not None:
            self._source.about = _about(options, self._nats)
            self._source.config_loaded = self._clock.now()

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        idle = _HEAD_S
        try:
            while True:
                async with asyncio.timeout(idle):
                    begun = await reader.readexactly(1)
                async with asyncio.timeout(_HEAD_S):
                    head = begun + await reader.readuntil(b"\r\n\r\n")
                await step_queue().wait()
                idle = _IDLE_S
                if not await self._answer(head.decode("latin-1"), writer):
                    return
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return True if the connection stays open."""
        lines = head.split("\r\n")
        words = lines[0].split(" ")
        headers = dict[str, str]()
        for name, _, value in (line.partition(":") for line in lines[1:] if line):
            name = name.strip().lower()
            if name == "host" and name in headers:
                value = f"{headers[name]}, {value}"  # two names together match no allowed name
            headers[name] = value.strip()
        keeps = headers.get("connection", "").lower() != "close" and words[-1] == "HTTP/1.1"
        if not self._access.knows(headers.get("host", "")):
            page, keeps = Page(_WRONG_HOST, 421, "text/plain; charset=utf-8"), False
        elif (
            len(words) != 3 or headers.get("content-length", "0") != "0" or not _is_place(words[1])
        ):
            page, keeps = Page(b"400 Bad Request", 400, "text/plain; charset=utf-8"), False
        else:  # any method is answered: some health checks use OPTIONS
            page = await self._page(words[1])
        more = self._access.headers(headers.get("origin", ""))
        writer.write(_written(page, more, with_body=words[0] != "HEAD", keeps=keeps))
        try:
            async with asyncio.timeout(_IDLE_S):
                await writer.drain()
        except TimeoutError:
            writer.transport.abort()  # a normal close would wait for a client that reads nothing
            raise
        return keeps

    async def _page(self, target: str) -> Page:
        parts = urlsplit(target)
        query = PageQuery(dict(parse_qsl(parts.query, keep_blank_values=True)))
        if not parts.path.endswith("/healthz"):
            await self._until_shown()
        source = self._source
        if source is None or not self._shown.is_set():
            return Page(b'{"status":"unavailable","error":"server is starting"}', 503)
        base = self._options.http_base_path.rstrip("/")
        path = unquote(parts.path)
        if base and path.startswith(base):
            path = path[len(base) :] or "/"
        return await serve(source, path, query)

    async def _until_shown(self) -> None:
        """Wait until `show` has been called, at most 30 seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await self._shown.wait()


def _is_place(target: str) -> bool:
    """Return True if the target of a request has a path; others are answered with status 400."""
    try:
        return urlsplit(target).path.startswith("/")
    except ValueError:
        return False


def _about(options: Options, server: Server) -> About:
    authenticator = server.hub.authenticator
    return About(
        http_host=options.http_host or options.host,
        http_port=options.http_port,
        http_base_path=options.http_base_path,
        auth_timeout=authenticator.users.timeout if authenticator is not None else Seconds(2.0),
        lame_duck_duration=options.lame_duck_duration,
        max_closed_clients=options.max_closed_clients,
        config_digest=options.digest,
        metadata=options.metadata,
        websocket=_websocket(options, server),
        cluster=_cluster(server),
        jetstream=_jetstream(options) if options.jetstream.enabled else None,
    )


def _jetstream(options: Options) -> dict[str, Any]:
    told = options.jetstream
    return {
        "max_memory": told.max_memory or _memory() * 3 // 4,
        **_place(told),
        "sync_interval": round(told.sync_interval * NANOS_PER_SECOND),
        **({"sync_always": True} if told.sync_always else {}),
        **({"domain": told.domain} if told.domain else {}),
        **({"compress_ok": True} if told.is_block else {}),
        **({"strict": True} if told.strict else {}),
    }


def _place(told: JetStreamOptions) -> dict[str, Any]:
    """Return the members of /varz for the storage directory and its limit in bytes.

    For a shared database, the directory is "", and a missing limit is -1.
    """
    if told.is_given:
        return {"max_storage": told.max_file or -1, "store_dir": ""}
    directory = told.directory()
    storage = told.max_file or shutil.disk_usage(directory).free * 3 // 4
    return {"max_storage": storage, "store_dir": str(directory)}


def _websocket(options: Options, server: Server) -> dict[str, Any]:
    listener = websocket_of(options.websocket)
    if listener is None:
        return {}
    given, block = listener.options, options.websocket or {}
    own = block.get("authorization", block.get("authentication")) or {}
    shown = {
        "advertise": block.get("advertise"),
        "no_auth_user": block.get("no_auth_user"),
        "handshake_timeout": "handshake_timeout" in block
        and round(given.handshake_timeout * NANOS_PER_SECOND),
        "auth_timeout": own.get("timeout"),
        "no_tls": True,
        "same_origin": given.same_origin,
        "allowed_origins": list(given.allowed_origins),
        "compression": given.compression,
    }
    return {"host": listener.host, "port": server.ws_port} | {k: v for k, v in shown.items() if v}


def _cluster(server: Server) -> dict[str, Any]:
    if server.mesh is None:
        return {}
    settings = server.mesh.settings
    urls = [join(url.host, url.port) for url in settings.routes]
    return {
        "addr": settings.host,
        "cluster_port": server.mesh.address[1],
        "auth_timeout": int(timeout) if (timeout := settings.timeout_s) % 1 == 0 else timeout,
        **({"urls": urls} if urls else {}),
        "tls_timeout": 2,
        "pool_size": -1,
    }


def _memory() -> int:
    import os

    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _written(page: Page, more: list[str], *, with_body: bool, keeps: bool) -> bytes:
    reason = _REASONS.get(page.status, "")
    lines = [f"HTTP/1.1 {page.status} {reason}", *more]
    lines += [
        "X-Content-Type-Options: nosniff",
        f"Content-Type: {page.kind}",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Length: {len(page.body)}",
    ]
    if not keeps:
        lines.append("Connection: close")
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head + page.body if with_body else head
