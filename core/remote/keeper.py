"""The remotes of a node: which there are, that each is connected, and how that goes.

The list is that of the configuration and that of storage together; of two with one name the
configuration's counts. Storage is asked every few seconds, so `jetgate remote add` needs no
restart; it is told how the connections are whenever that changes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial

from core.client.client import Client, Options
from core.client.link import Connector
from core.client.refusals import ClientError
from core.client.tcp import dial
from core.errors import ConfigError, Unavailable
from core.pubsub.account import Account
from core.remote.bridge import READING, Bridge
from core.remote.credentials import identify
from core.remote.here import AccountHere
from core.remote.leaf import Leaf
from core.remote.settings import Remote
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.storage.remotes import RemoteState, RemoteStore

log = logging.getLogger("jetgate.remote")

_PERIOD_S = 1.0
_LOOK_EVERY, _MEASURE_EVERY = 2, 15
_PATIENCE_S, _PING_S = 2.0, 10.0


def options_of(remote: Remote) -> Options:
    """Who we are there."""
    user, password, token = remote.login
    return Options(
        name=f"jetgate remote {remote.name}",
        user=user,
        password=password,
        token=token,
        ping_interval=_PING_S,
        identify=partial(identify, remote.creds) if remote.creds else None,
    )


def open_line(remote: Remote) -> Client | Leaf:
    """A connection to a remote that is not made yet."""
    kind = Leaf if remote.is_offer else Client
    return kind(dial(remote.address), options_of(remote))


class Attached:
    """One remote and its connection.

    Args:
        remote: which.
        account: ours.
        clock: the node's.
        connected: called with an API prefix when it is served here again.
        own: opens a client of this server, for what is offered to others.
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
        self._said = ""
        self._was_connected = False
        self.line = line = open_line(remote)
        self.line.on_change = self._changed
        if isinstance(line, Client):
            self._own = None
            self.bridge = Bridge(AccountHere(account), line, remote.name, clock.monotonic)
            return
        if own is None:
            raise ConfigError(f"remote {remote.name}", "there is no JetStream here to be offered")
        name, as_account = f"jetgate remote {remote.name}", {"account": account.name}
        self._own = Client(own, Options(name=name, identify=lambda nonce: as_account))
        self._own.on_change = self._open
        self.bridge = Bridge(line, self._own, remote.name, clock.monotonic, verbs=READING)

    def start(self) -> None:
        """Connect, as often as it takes."""
        if self._own is not None:
            self._own.start()
        self.line.start()

    def _open(self) -> None:
        if self.line.connected and (self._own is None or self._own.connected):
            self.bridge.open()

    def _changed(self) -> None:
        line, name = self.line, self.remote.name
        if line.connected:
            self._said, self._was_connected = "", True
            self._open()
            log.info("remote %s: connected to %s", name, server_of(line))
            if self._own is None:
                self._connected(f"$JS.{name}.API")
            return
        self.bridge.close()
        self.rtt_ns = 0
        if self._was_connected and not line.closed:
            log.warning("remote %s: connection lost", name)
        elif line.last_error != self._said:
            self._said = line.last_error
            log.warning("remote %s: cannot connect to %s: %s", name, self.remote.shown, self._said)
        self._was_connected = False

    async def measure(self) -> None:
        """Take the time of a PING."""
        started = self._clock.monotonic()
        try:
            await self.line.flush(_PATIENCE_S)
        except ClientError:
            return
        self.rtt_ns = max(self._clock.monotonic() - started, 1)

    def state(self) -> RemoteState:
        """How the connection is."""
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
        """Close."""
        self.bridge.end()
        await self.line.close()
        if self._own is not None:
            await self._own.close()


def server_of(line: Client | Leaf) -> str:
    """Name and version of the server; one without a name has the beginning of its id."""
    info = line.info
    name = info.server_name if info.server_name != info.server_id else info.server_id[:8]
    return f"{name} {info.version}".strip()


class Remotes:
    """All remotes of a node, in one account.

    Args:
        account: where their API is offered.
        clock: the node's.
        configured: those of the configuration.
        store: the list that all nodes share, if there is one.
        connected: called with an API prefix when it is served again.
        own: opens a client of this server that may do everything.
    """

    def __init__(
        self,
        account: Account,
        clock: Clock,
        configured: tuple[Remote, ...] = (),
        store: RemoteStore | None = None,
        connected: Callable[[str], None] = lambda api: None,
        own: Connector | None = None,
    ) -> None:
        self.attached: dict[str, Attached] = {}
        self._account = account
        self._clock = clock
        self._configured = configured
        self._stored: tuple[Remote, ...] = ()
        self._store = store
        self._connected = connected
        self._own = own
        self._told: tuple[RemoteState, ...] = ()
        self._refused: set[str] = set()
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect."""
        if self._configured or self._store is not None:
            self._task = spawn(self._keep(), name="remotes")

    def configure(self, configured: tuple[Remote, ...]) -> None:
        """Take another configuration."""
        self._configured = configured
        self._nudge.set()
        if self._task is None:
            self.start()

    async def stop(self) -> None:
        """Close every connection."""
        await stop(self._task)
        await asyncio.gather(*(attached.end() for attached in self.attached.values()))
        self.attached = {}

    def states(self) -> list[RemoteState]:
        """How the connections are, by name."""
        return [self.attached[name].state() for name in sorted(self.attached)]

    # -- keeping

    async def _keep(self) -> None:
        beat = 0
        while True:
            if beat % _LOOK_EVERY == 0 or self._nudge.is_set():
                self._nudge.clear()
                await self._look()
            due = []
            for attached in self.attached.values():
                attached.bridge.relays.sweep()
                if attached.line.connected and (not attached.rtt_ns or beat % _MEASURE_EVERY == 0):
                    due.append(attached.measure())
            await asyncio.gather(*due)
            await self._tell(anyway=beat % _MEASURE_EVERY == 0)
            beat += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), _PERIOD_S)

    async def _look(self) -> None:
        """Read the list again; while storage is away it stays what it was."""
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
        await self._become()

    async def _become(self) -> None:
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
            attached = Attached(remote, self._account, self._clock, self._connected, self._own)
        except ConfigError as error:
            self._refuse(remote.name, str(error))
            return
        self.attached[remote.name] = attached
        attached.start()

    async def _end(self, gone: Iterable[Attached]) -> None:
        for attached in gone:
            log.info("remote %s: closed", attached.remote.name)
            del self.attached[attached.remote.name]
            await attached.end()

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.error("remote %s is left out: %s", name, why)

    async def _tell(self, *, anyway: bool) -> None:
        if self._store is None:
            return
        states = tuple(self.states())
        if not states or (states == self._told and not anyway):
            return
        try:
            await self._store.tell(states)
            self._told = states
        except Unavailable:
            return
