"""The process of `jetgate-nats-server`, from its first log line to its last.

`core.node.lifecycle` defines its phases. Signals: INT and TERM stop; HUP reloads the configuration;
USR1 reopens the log file; USR2 starts lame duck mode. In lame duck mode the server informs its
clients and accepts no new ones. After a grace period it closes connections one by one, and ends
when all are closed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import core
from core.config.grammar import GrammarError
from core.errors import ConfigError, OperatorError
from core.model.release import SERVER_VERSION
from core.node.lifecycle import Candidacy, Lifecycle
from core.node.server import Server, ServerOptions
from core.pubsub.server import AUTHORS_OVER_NATS
from core.runtime.clock import SystemClock
from core.runtime.garbage import FullCollections
from core.runtime.tasks import spawn, stop
from dropin import server_log
from dropin.config.advertise import advertised, websocket_advertised
from dropin.config.authorization import has_plain_passwords, users_of
from dropin.config.contradictions import refuse_contradictions
from dropin.config.options import Options
from dropin.config.reader import Mistakes
from dropin.config.websocket import websocket_of, websocket_users
from dropin.core_nats import CoreNats
from dropin.monitoring_port import Monitor
from dropin.ports import client_port, no_clients, no_routes, probe_ports
from dropin.ports_file import PortsFile, join, write_pid
from dropin.reload import changes
from dropin.unserved_listeners import UnservedListeners

if TYPE_CHECKING:
    from core.node.runtime import JetStreamRuntime
    from core.route.settings import ClusterSettings
    from dropin.jetstream import JetStream
    from dropin.shared import Shared

log = logging.getLogger(__name__)

_PAYLOAD_TO_WARN_OF = 8 * 1024 * 1024
_TRAPPED = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


class Process:
    """A server process with its signal handlers; `core.node.lifecycle.Lifecycle` calls its methods.

    Order: `open`, `listening`, `prepare`; then `serve` and `step_down` for each runtime
    (`core.node.runtime`, the streams in memory between two losses of PostgreSQL); `leave`, `close`.

    Args:
        options: The configuration.
        load: Reads flags and configuration file again, for a reload.
        executable: File name of the command, for the ports file.
    """

    def __init__(self, options: Options, load: Callable[[], Options], executable: str) -> None:
        self._options = options
        self._load = load
        self._clock = SystemClock()
        self._collections = FullCollections(self._clock)
        self._executable = executable
        self._ports = PortsFile(options.ports_file_dir, executable)
        self._unserved = UnservedListeners()
        self._monitor: Monitor | None = None
        self._server: Server
        self._jetstream: JetStream | CoreNats
        self._life: Lifecycle | None = None
        self._lame_duck: asyncio.Task[None] | None = None
        self._has_listened = False
        self._is_ready = False

    async def run(self) -> None:
        """Serve until a signal stops the process.

        Raises:
            OperatorError, ConfigError: The configuration cannot be served.
        """
        loop = asyncio.get_running_loop()
        for number in _TRAPPED:
            loop.add_signal_handler(number, self._trapped, number)
        self._introduce()
        self._refuse()
        self._server = self._new_server()
        self._jetstream = self._new_jetstream()
        self._life = Lifecycle(self._server, self)
        await self._life.run()
        log.info("Server Exiting..")

    def _trapped(self, number: signal.Signals) -> None:
        if number == signal.SIGTERM and self._lame_duck is not None:
            return
        log.info('Trapped "%s" signal', _TRAPPED[signal.Signals(number)])
        if number == signal.SIGHUP:
            self._reload()
        elif number == signal.SIGUSR1:
            if server_log.reopen():
                log.info("File log re-opened")
            else:
                log.info("File log re-open ignored, not a file logger")
        elif number == signal.SIGUSR2:
            if self._lame_duck is None and self._life is not None:
                self._lame_duck = spawn(self._leave_clients(self._life), name="lame duck")
        else:
            self._stop()

    def _stop(self) -> None:
        if self._life is not None and not self._life.is_stopping:
            log.info("Initiating Shutdown...")
            self._life.stop()

    # -- starting ----------------------------------------------------------------------------

    def _introduce(self) -> None:
        options = self._options
        log.info("Starting nats-server")
        log.info("  Version:  %s", SERVER_VERSION)
        log.info("  Git:      [jetgate %s]", core.__version__)
        if options.config_file:
            log.info("Using configuration file: %s (%s)", options.config_file, options.digest)
        if has_plain_passwords(options.authorization):
            log.warning("Plaintext passwords detected, use nkeys or bcrypt")
        if options.max_payload > _PAYLOAD_TO_WARN_OF:
            log.warning(
                "Maximum payloads over 8.00 MB are generally discouraged and could lead to"
                " poor performance"
            )
        for warning in options.warnings:
            log.warning("%s", warning)

    def _refuse(self) -> None:
        options = self._options
        if options.refusals:
            raise OperatorError(options.refusals[0])
        users_of(options.authorization, options.no_auth_user)
        websocket_users(options)

    def _new_server(self) -> Server:
        options, websocket = self._options, websocket_of(self._options.websocket)
        chosen = ServerOptions(
            host=options.host,
            port=client_port(options),
            server_name=options.server_name,
            limits=options.limits(),
            users=users_of(options.authorization, options.no_auth_user),
            mappings=options.mappings or (),
            jetstream=options.jetstream.enabled,
            domain=options.jetstream.domain if options.jetstream.enabled else "",
            tags=options.tags,
            author_connection_types=_author_connection_types(options),
        )
        if options.jetstream.enabled and options.jetstream.is_given:
            chosen = replace(chosen, links=_cluster_settings(options))
        else:
            chosen = replace(chosen, cluster=_cluster_settings(options))
        if websocket is not None:
            chosen = replace(
                chosen,
                ws_host=websocket.host,
                ws_port=websocket.port,
                websocket=websocket.options,
                websocket_users=websocket_users(options),
            )
        server = Server(chosen, self._clock)
        if server.mesh is None and options.cluster.name:
            server.hub.cluster = options.cluster.name
            server.hub.default_account().use_mappings(options.mappings or ())
        server.hub.advertised = advertised(options.client_advertise)
        if websocket is not None:
            server.hub.ws_advertised = websocket_advertised(websocket.advertise)
        server.hub.use_trace_log(server_log.trace_log(options))
        return server

    def _new_jetstream(self) -> JetStream | CoreNats:
        options = self._options
        if not options.jetstream.enabled:
            return CoreNats(self._server, options.remotes)
        if sys.platform == "win32" and not options.jetstream.is_given:
            raise OperatorError(
                "Can't start JetStream: embedded PostgreSQL does not run on Windows"
            )
        # Imported late: only starts with JetStream need it
        from dropin.jetstream import JetStream

        return JetStream(self._server, options.jetstream, options.remotes)

    async def open(self) -> bool:
        """Write the PID file, and open the monitoring port and the ports of unserved protocols.

        Returns True if the process serves JetStream. Raises OperatorError if a port, the file or
        the store directory is unusable.
        """
        options = self._options
        write_pid(options.pid_file)
        probe_ports(options)
        if self._server.hub.cluster:
            log.info("  Cluster:  %s", self._server.hub.cluster)
        log.info("  Name:     %s", self._server.hub.server_name)
        log.info("  ID:       %s", self._server.hub.server_id)
        if options.http_port:
            self._monitor = Monitor(options, self._clock)
            await self._monitor.start()
        await self._unserved.open(options.unserved_listeners)
        has_own = options.jetstream.enabled and not options.jetstream.is_given
        if self._server.mesh is not None and has_own:
            log.warning(
                "JetStream is served by this server alone, and its store is the only copy: no other"
                " server of its cluster may have JetStream; with jetstream { dsn } all may"
            )
        return self._jetstream.open()

    async def prepare(self) -> Candidacy | None:
        """Start or connect to PostgreSQL.

        Returns the functions by which the process acquires leases and loads streams; None without
        JetStream. Raises OperatorError if PostgreSQL does not start or answer.
        """
        assert self._life is not None, "it asks"
        if (shared := self._shared) is not None:
            shared.changed.subscribe(self._leader_changed)
        return await self._jetstream.start(self._life.gate)

    @property
    def _shared(self) -> Shared | None:
        return None if isinstance(self._jetstream, CoreNats) else self._jetstream.shared

    def _leader_changed(self) -> None:
        assert self._life is not None, "it tells"
        if self._life.gate.is_open:
            self._say_ready()

    def listening(self) -> None:
        """Log the addresses and write the ports file; called when the client ports are open."""
        self._has_listened = True
        if self._monitor is not None:
            cluster = None if (shared := self._shared) is None else shared.peers.cluster
            self._monitor.watch(self._server, cluster)
        options = self._options
        if self._server.ws_port is not None:
            websocket = websocket_of(options.websocket)
            assert websocket is not None
            place = join(websocket.host, self._server.ws_port)
            log.info("Listening for websocket clients on ws://%s", place)
            log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
        log.info("Listening for client connections on %s", join(options.host, self._server.port))
        self._ports.write(self._addresses())

    async def serve(self, runtime: JetStreamRuntime | None) -> None:
        """Show a new runtime (`core.node.runtime`, the streams in memory) in the monitoring pages.

        At the first call, log "Server is ready"; over a shared database, this waits until every
        stream has a reachable leader. `runtime` is None if this server has no streams.
        """
        self._jetstream.serve(runtime)
        if self._monitor is not None:
            assert self._life is not None, "it leads"
            self._monitor.show(runtime, self._life.gate)
        if self._shared is None:
            self._say_ready()
        else:
            self._leader_changed()

    def _say_ready(self) -> None:
        if self._is_ready:
            return
        self._is_ready = True
        self._collections.start()
        log.info("Server is ready")

    def cannot_listen(self, error: OSError) -> OperatorError:
        """Return the OperatorError for a client or route port that cannot be opened."""
        # The client port is opened before the route port, so if it is open, the latter failed.
        refusal = no_routes if self._server.hub.port else no_clients
        return refusal(self._options, error)

    def _addresses(self) -> dict[str, tuple[str, int]]:
        found = {"nats": (self._options.host, self._server.port), **self._unserved.addresses}
        if self._monitor is not None:
            found["monitoring"] = (self._monitor.host, self._monitor.port)
        if self._server.mesh is not None:
            found["cluster"] = self._server.mesh.address
        websocket = websocket_of(self._options.websocket)
        if websocket is not None and self._server.ws_port is not None:
            found["websocket"] = (websocket.host, self._server.ws_port)
        return found

    # -- changing ----------------------------------------------------------------------------

    def _reload(self) -> None:
        try:
            if not self._options.config_file:
                raise OperatorError(
                    "can only reload config when a file is provided using -c or --config"
                )
            new = self._load()
            refuse_contradictions(new)
            if new.refusals:
                raise OperatorError(new.refusals[0])
            said = changes(self._options, new)
            advertised(new.client_advertise)
            _cluster_settings(new)
            users = users_of(new.authorization, new.no_auth_user)
            over_websocket = websocket_users(new)
            server_log.configure(new)
        except (OperatorError, ConfigError, GrammarError, Mistakes) as error:
            log.error("Failed to reload server configuration: %s", str(error).rstrip("\n"))
            return
        if self._life is not None:
            self._follow(new)
            before = (self._options.authorization, self._options.no_auth_user)
            if (new.authorization, new.no_auth_user) != before:
                self._server.use_users(users, over_websocket)
        self._write_files(new)
        for line in said:
            log.info("Reloaded: %s", line)
        self._options = new
        if self._monitor is not None:
            self._monitor.reloaded(new)
        log.info("Reloaded server configuration (%s)", new.digest)

    def _follow(self, new: Options) -> None:
        """Apply the limits, mappings and addresses of a reload to the running server."""
        hub = self._server.hub
        hub.use_limits(new.limits())
        hub.tags = new.tags
        if new.author_permissions != self._options.author_permissions:
            hub.use_author_connection_types(_author_connection_types(new))
        if (shared := self._shared) is not None:
            shared.row.tags = new.tags
        if _traced(new) != _traced(self._options):
            hub.use_trace_log(server_log.trace_log(new))
        if new.mappings is None:
            new.mappings = self._options.mappings
        elif new.mappings != self._options.mappings:
            hub.default_account().use_mappings(new.mappings)
        self._jetstream.reconfigure(new.jetstream.limits, new.remotes)
        if new.client_advertise != self._options.client_advertise:
            log.info("Reload: client_advertise = %s", new.client_advertise)
            hub.advertised = advertised(new.client_advertise)
            self._server.announce()
        settings = _cluster_settings(new) if new.cluster != self._options.cluster else None
        if (mesh := self._server.mesh) is not None and settings is not None:
            mesh.reconfigure(settings)
        for session in list(hub.sessions.values())[max(new.max_connections, 0) :]:
            if new.max_connections > 0:
                session.close("Maximum Connections Exceeded", "maximum connections exceeded")

    def _write_files(self, new: Options) -> None:
        """Rewrite the PID file and the ports file if their paths have changed."""
        try:
            if new.pid_file != self._options.pid_file:
                write_pid(new.pid_file)
        except OperatorError as error:
            log.error("%s", error)
        if new.ports_file_dir != self._options.ports_file_dir:
            self._ports.remove()
            self._ports = PortsFile(new.ports_file_dir, self._executable)
            if self._has_listened:
                self._ports.write(self._addresses())

    async def _leave_clients(self, life: Lifecycle) -> None:
        options, hub = self._options, self._server.hub
        log.info("Entering lame duck mode, stop accepting new clients")
        if options.jetstream.enabled:
            log.info("Initiating JetStream Shutdown...")
        await life.retire()
        await self._jetstream.retire()
        if options.jetstream.enabled:
            log.info("JetStream Shutdown")
        if (mesh := self._server.mesh) is not None:
            mesh.retire()
        if mesh is None:
            hub.begin_lame_duck()
        else:
            over_websocket = mesh.connect_urls(over_websocket=True)
            hub.begin_lame_duck(tuple(mesh.connect_urls()), tuple(over_websocket))
        if hub.sessions:
            await asyncio.sleep(options.lame_duck_grace_period)
            left = max(options.lame_duck_duration - options.lame_duck_grace_period, 0.0)
            pause = min(left / max(len(hub.sessions), 1), 1.0)
            for session in list(hub.sessions.values()):
                session.close("Server Shutdown")
                await asyncio.sleep(pause)
        self._stop()

    # -- stopping ----------------------------------------------------------------------------

    def step_down(self) -> None:
        """Forget the runtime (`core.node.runtime`, the streams in memory) before it is stopped.

        The process continues. Over an embedded database the monitoring pages show the old runtime
        until the next call of `serve`.
        """
        shared = self._shared
        if shared is not None and self._monitor is not None and self._life is not None:
            self._monitor.show(None, self._life.gate)
        self._jetstream.step_down()

    async def leave(self) -> None:
        """Begin to stop: close the ports for monitoring, routes and unserved protocols."""
        self._ports.remove()
        if self._server.mesh is not None:
            self._server.mesh.retire()
        await stop(self._lame_duck)
        self._unserved.close()
        if self._monitor is not None:
            await self._monitor.stop()
        await self._jetstream.retire()

    async def close(self) -> None:
        """Close the server's listeners and routes, and stop PostgreSQL."""
        await self._server.close()
        await self._jetstream.stop()
        self._collections.stop()


def _author_connection_types(options: Options) -> frozenset[str]:
    return AUTHORS_OVER_NATS if options.author_permissions else frozenset()


def _traced(options: Options) -> tuple[bool, bool, int]:
    return options.trace, options.trace_headers, options.max_traced_msg_len


def _cluster_settings(options: Options) -> ClusterSettings | None:
    if not options.cluster.port:
        return None
    # Imported late: only starts with a cluster need it
    from dropin.config.cluster import settings_of

    return settings_of(options.cluster)
