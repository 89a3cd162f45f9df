"""Manages the remotes of a node, the other NATS systems it connects to.

It keeps each connected and records the state of each connection. The remotes are those of the
configuration and those in storage. Of two with the same name the configured one is used. Storage is
read every few seconds, so `jetgate remote add` needs no restart. The states of connections are
stored when they change. Only one of the nodes of one database connects, since every connected node
would answer each request.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial

from core.client.client import Client
from core.client.errors import ClientError
from core.client.link import Connector
from core.client.options import Options
from core.client.tcp import dial
from core.errors import ConfigError, Unavailable
from core.pubsub.account import Account
from core.remote.bridge import READING, Bridge
from core.remote.credentials import identify
from core.remote.leaf import Leaf
from core.remote.request_side import AccountSide
from core.remote.settings import Remote
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.storage.remotes import RemoteState, RemoteStore
from core.units import Seconds

log = logging.getLogger(__name__)

_TICK_S = 1.0
_RELOAD_EVERY, _MEASURE_EVERY = 2, 15  # ticks
_PING_TIMEOUT_S, _PING_INTERVAL_S = 2.0, Seconds(10.0)


def options_of(remote: Remote) -> Options:
    """Return the options of the client connection to a remote: login, credentials, PING
    interval.
    """
    user, password, token = remote.login
    return Options(
        name=f"jetgate remote {remote.name}",
        user=user,
        password=password,
        token=token,
        ping_interval=_PING_INTERVAL_S,
        identify=partial(identify, remote.creds) if remote.creds else None,
    )


def open_line(remote: Remote) -> Client | Leaf:
    """Return a connection to a remote, a client or a leaf node; it is not opened yet."""
    kind = Leaf if remote.is_offer else Client
    return kind(dial(remote.address), options_of(remote))


class AttachedRemote:
    """A remote with its connection and its bridge, from `start` to `end`.

    Args:
        remote: Its configuration.
        account: The account of this server in which the remote's API can be used.
        clock: The clock of the node.
        connected: Called with the remote's API prefix after each connect, when requests are
            forwarded.
        own: Opens a client of this server, whose API is offered to a `nats-leaf://` remote.

    Raises:
        ConfigError: The remote is `nats-leaf://` and `own` is None.
    """

    def __init__(
        self,
        remote: Remote,
        account: Account,
        clock: Clock,
        connected: Callable[[str], None],
        own: Connector | None,
    ) -> None:
        self.remote = remote
        self.rtt_ns = 0
        self._connected = connected
        self._clock = clock
        self._logged = ""
        self._was_connected = False
        self.line = line = open_line(remote)
        self.line.changed.subscribe(self._changed)
        if isinstance(line, Client):
            self._own_client = None
            self.bridge = Bridge(AccountSide(account), line, remote.name, clock.monotonic)
            return
        if own is None:
            raise ConfigError(f"remote {remote.name}", "there is no JetStream here to be offered")
        name, as_account = f"jetgate remote {remote.name}", {"account": account.name}
        self._own_client = Client(own, Options(name=name, identify=lambda nonce: as_account))
        self._own_client.changed.subscribe(self._open)
        self.bridge = Bridge(line, self._own_client, remote.name, clock.monotonic, verbs=READING)

    def start(self) -> None:
        """Connect to the remote in the background; retry until it succeeds."""
        if self._own_client is not None:
            self._own_client.start()
        self.line.start()

    def _open(self) -> None:
        if self.line.connected and (self._own_client is None or self._own_client.connected):
            self.bridge.open()

    def _changed(self) -> None:
        line, name = self.line, self.remote.name
        if line.connected:
            self._logged, self._was_connected = "", True
            self._open()
            log.info("remote %s: connected to %s", name, server_of(line))
            if self._own_client is None:
                self._connected(f"$JS.{name}.API")
            return
        self.bridge.close()
        self.rtt_ns = 0
        if self._was_connected and not line.closed:
            log.warning("remote %s: connection lost", name)
        elif line.last_error != self._logged:
            self._logged = line.last_error
            log.warning(
                "remote %s: cannot connect to %s: %s", name, self.remote.shown, self._logged
            )
        self._was_connected = False

    async def measure(self) -> None:
        """Measure the round trip of a PING to the remote and store it in `rtt_ns`, in nanoseconds.

        `rtt_ns` keeps its value if there is no answer within 2 seconds.
        """
        started = self._clock.monotonic()
        try:
            await self.line.flush(_PING_TIMEOUT_S)
        except ClientError:
            return
        self.rtt_ns = max(self._clock.monotonic() - started, 1)

    def state(self) -> RemoteState:
        """Return the present state of the connection to the remote."""
        line = self.line
        return RemoteState(
            self.remote.name,
            line.connected,
            server_of(line) if line.connected else "",
            self.rtt_ns,
            line.last_error,
            len(self.bridge.relays),
        )

    async def end(self) -> None:
        """Stop forwarding, and close the connections to the remote."""
        self.bridge.end()
        await self.line.close()
        if self._own_client is not None:
            await self._own_client.close()


def server_of(line: Client | Leaf) -> str:
    """Return name and version of the server a connection leads to.

    Without a name, the first 8 characters of its id.
    """
    info = line.info
    name = info.server_name if info.server_name != info.server_id else info.server_id[:8]
    return f"{name} {info.version}".strip()


class Remotes:
    """Connects a node to its remotes (other NATS systems), all for one account.

    Life cycle: `start`, then `configure` or `reload` on changes, `stop`.

    Args:
        account: The account in which the APIs of the remotes can be used.
        clock: The clock of the node.
        configured: The remotes of the configuration.
        store: The list of remotes in storage; None: there is none.
        connected: Called with a remote's API prefix after each connect, when requests are
            forwarded.
        own: Opens a client of this server without permission checks.
        connects: Returns True if this node is the one that connects; call `reload` when that
            changes.

    Attributes:
        attached: The remotes with a connection or attempts to connect, by name.
    """

    def __init__(
        self,
        account: Account,
        clock: Clock,
        configured: tuple[Remote, ...] = (),
        store: RemoteStore | None = None,
        connected: Callable[[str], None] = lambda api: None,
        own: Connector | None = None,
        connects: Callable[[], bool] = lambda: True,
    ) -> None:
        self.attached: dict[str, AttachedRemote] = {}
        self._account = account
        self._clock = clock
        self._configured = configured
        self._stored: tuple[Remote, ...] = ()
        self._store = store
        self._connected = connected
        self._own = own
        self._connects = connects
        self._recorded: tuple[RemoteState, ...] = ()
        self._refused: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that connects to the remotes, if there can be any."""
        if self._configured or self._store is not None:
            self._task = spawn(self._keep(), name="remotes")

    def configure(self, configured: tuple[Remote, ...]) -> None:
        """Replace the remotes of the configuration.

        Connections are opened and closed soon after.
        """
        self._configured = configured
        self._wake.set()
        if self._task is None:
            self.start()

    def reload(self) -> None:
        """Connect to the remotes, or close them, if the result of `connects` has changed."""
        if self._connects() == (not self.attached):
            self._wake.set()

    async def stop(self) -> None:
        """Stop the task and close the connections to all remotes."""
        await stop(self._task)
        await asyncio.gather(*(attached.end() for attached in self.attached.values()))
        self.attached = {}

    def states(self) -> list[RemoteState]:
        """Return the states of the connections to the remotes, sorted by name."""
        return [self.attached[name].state() for name in sorted(self.attached)]

    # -- the task

    async def _keep(self) -> None:
        tick = 0
        while True:
            if tick % _RELOAD_EVERY == 0 or self._wake.is_set():
                self._wake.clear()
                await self._reload()
            due = []
            for attached in self.attached.values():
                attached.bridge.relays.sweep()
                if attached.line.connected and (not attached.rtt_ns or tick % _MEASURE_EVERY == 0):
                    due.append(attached.measure())
            await asyncio.gather(*due)
            await self._record(anyway=tick % _MEASURE_EVERY == 0)
            tick += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_S)

    async def _reload(self) -> None:
        """Read the list of remotes in storage and apply it; keep the last list if storage fails."""
        if not self._connects():
            await self._end(list(self.attached.values()))
            return
        if self._store is not None:
            try:
                rows = await self._store.load()
            except Unavailable:
                return
            found = []
            for row in rows:
                try:
                    found.append(Remote(row.name, row.url, row.creds))
                except ConfigError as error:
                    self._refuse(row.name, str(error))
            self._stored = tuple(found)
        await self._apply()

    async def _apply(self) -> None:
        """Attach new remotes, close those that were removed or changed."""
        wanted = {remote.name: remote for remote in (*self._stored, *self._configured)}
        domain = self._account.hub.domain
        if domain in wanted:
            del wanted[domain]
            self._refuse(domain, "is this server's own domain")
        gone = [a for name, a in self.attached.items() if wanted.get(name) != a.remote]
        await self._end(gone)
        for name, remote in wanted.items():
            if name not in self.attached:
                self._attach(remote)

    def _attach(self, remote: Remote) -> None:
        try:
            attached = AttachedRemote(
                remote, self._account, self._clock, self._connected, self._own
            )
        except ConfigError as error:
            self._refuse(remote.name, str(error))
            return
        self.attached[remote.name] = attached
        attached.start()

    async def _end(self, gone: Iterable[AttachedRemote]) -> None:
        for attached in gone:
            log.info("remote %s: closed", attached.remote.name)
            del self.attached[attached.remote.name]
            await attached.end()

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.error("remote %s is left out: %s", name, why)

    async def _record(self, *, anyway: bool) -> None:
        """Store the states of connections if they have changed, or `anyway`."""
        if self._store is None:
            return
        states = tuple(self.states())
        if not states or (states == self._recorded and not anyway):
            return
        try:
            await self._store.record(states)
            self._recorded = states
        except Unavailable:
            return
