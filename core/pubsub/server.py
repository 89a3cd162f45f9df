"""The hub: the state that all connections of a node share (accounts, users, limits, sessions)."""

import hashlib
from base64 import b32encode
from binascii import crc_hqx
from dataclasses import dataclass
from typing import Protocol

from core.auth.authenticator import HIDDEN, Authenticator, Identity, SlowCheck
from core.auth.users import Users
from core.errors import AuthError
from core.protocol.connect import Connect
from core.protocol.publish_hold import EVERYTHING, HoldRule
from core.protocol.server_parser import Publisher
from core.pubsub.account import Account
from core.pubsub.disconnect_log import DisconnectLog
from core.pubsub.hub_view import PausedConnection
from core.pubsub.limits import Limits
from core.pubsub.password_checks import PasswordChecks
from core.pubsub.receivers import ServerLink, Session
from core.pubsub.trace_log import TraceLog
from core.pubsub.user_info import answer_user_info
from core.runtime.clock import Clock
from core.runtime.descriptors import DescriptorReserve
from core.runtime.loop_tick import LoopTick
from core.runtime.nuid import nuid
from core.runtime.subscribers import Subscribers
from core.units import Nanos

HELD_MAX = 64 * 2**20
"""Largest number of bytes of held publishes in this process; above it, all clients' reading
pauses.
"""
_SERVER_PREFIX = 13 << 3  # first letter N in base 32
_CURVE_PREFIX = 23 << 3  # first letter X in base 32
WEBSOCKET = "WEBSOCKET"
"""The type of a connection over WebSocket."""
IN_PROCESS = "IN_PROCESS"
"""The type of a connection inside this process, such as one of the HTTP gateway for a user.

It has the permissions of its user.
"""
TRUSTED = "TRUSTED"
"""The type of a connection of this server's own parts; everything is allowed."""

AUTHORS_OVER_HTTP = frozenset((IN_PROCESS,))
AUTHORS_OVER_NATS = frozenset(("STANDARD", WEBSOCKET))
"""Types of connections over NATS, a value for `Hub.author_connection_types`.

`AUTHORS_OVER_HTTP` is the other value: connections of HTTP clients.
"""


@dataclass(slots=True)
class Traffic:
    """Counters of received and sent messages, and of the bytes of their headers and payloads."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def add(self, other: "Traffic") -> None:
        """Add the counts of another object to this one."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


class Connection(PausedConnection, Session, Protocol):
    """A client's connection, as the JetStream API and the code for all connections use it.

    The attributes are those of `core.transport.session.ClientSession`. `started` is in nanoseconds
    since the Unix epoch, `rtt` in nanoseconds.
    """

    traffic: Traffic
    account: Account
    connect: Connect
    connection_type: str
    address: tuple[str, int] | None
    client_ip: str
    client_port: int
    forwarded_for: str
    is_connected: bool
    no_responders: bool
    started: Nanos
    rtt: int

    @property
    def publisher(self) -> Publisher:
        """The object that publishes the client's messages (`core.transport.publishing`)."""
        ...

    def write_line(self, line: bytes) -> None:
        """Add a protocol line to the output of this loop tick."""
        ...

    def written(self) -> int:
        """Return the number of bytes that the socket has accepted since the connection began."""
        ...

    def close(self, reason: str, error: str = "") -> None:
        """Write the pending output and an -ERR with `error`, if any; then close."""
        ...

    def use_limits(self) -> None:
        """Apply the server's limits (`Hub.limits`) after they have changed."""
        ...

    def reauthorize(self) -> None:
        """Apply changed users and permissions.

        Close the connection if its credentials no longer suffice.
        """
        ...

    def choose_publisher(self) -> None:
        """Create the client's publisher again, after a change of CONNECT, permissions or
        mappings.
        """
        ...

    def use_trace_log(self) -> None:
        """Start or stop logging the operations of the client, as `Hub.trace_log` requires."""
        ...

    def hold_publishes(self) -> None:
        """Stop reading the client's bytes at the first publish that has to wait (`Hub.is_held`)."""
        ...

    def resume_publishes(self) -> None:
        """Publish the held messages, then continue to read the client's bytes."""
        ...

    def pause(self) -> None:
        """Pause reading from the socket until `resume_publishes` or `hold_publishes` is called."""
        ...

    def announce_info(self) -> None:
        """Send the changed INFO, if the client reads more than one (protocol 1)."""
        ...

    def close_slow_consumer(self, reason: str) -> None:
        """Close the connection at once, without its pending output: the client reads too slowly."""
        ...

    def count(self) -> Traffic:
        """Update the counters in `traffic` and return them."""
        ...


SYSTEM_ACCOUNT = "$SYS"
"""The account of operators. Its users may request the state of servers; it has no streams."""


class Hub:
    """The shared state of one node's NATS side: accounts, users, limits, sessions and counters.

    `use_users`, `use_limits` and an account's `use_mappings` change the rules for connected clients
    too.

    *Backpressure* protects against producers that are faster than storage and consumers. Between
    `begin_backpressure` and `end_backpressure`, `overloaded` is True: sessions with large reads
    pause reading.

    *Held publishes.* Publishes wait while their streams have no leader or are loaded. Between
    `hold_publishes` and `resume_publishes` a session is read only up to its first publish that has
    to wait (`is_held`). The session keeps the later bytes that it has read. When all sessions keep
    `HELD_MAX` bytes together (`is_full`), all of them pause reading. Before that, `is_held` may
    decide that too many bytes are held for one purpose; further publishes of that kind do not wait.

    Attributes:
        output_nearly_full: Set when a session's unsent output is near `max_pending`. The producer
            whose read is being processed pauses reading for a moment.
        blocked: The sessions whose sockets accept no more output: bytes accepted until then, and
            the monotonic time when that was found.
        blocked_links: The links to other servers with much unsent output; senders wait until there
            is less.
        overload_changed: Called when `overloaded` has changed.
        cluster: The name of the cluster; empty: none.
        connect_urls, ws_connect_urls: Addresses of other servers for clients, and those for
            WebSocket; `use_cluster` sets and announces them.
        ldm: Lame duck mode: clients are asked to connect to other servers.
        author_connection_types: Types of connections whose messages need permission for their
            headers (`core.auth.author`), and whose batches belong to the connection
            (`core.pubsub.authored`).
        left: Called with every closed connection. Its counters stay in the `totals`.
        users_changed: Called after other users or permissions were applied to connected clients.
    """

    def __init__(
        self,
        loop_tick: LoopTick,
        clock: Clock,
        *,
        limits: Limits | None = None,
        server_name: str = "",
        jetstream: bool = True,
        users: Users | None = None,
    ) -> None:
        self.loop_tick = loop_tick
        self.clock = clock
        self.limits = limits or Limits()
        self.jetstream = jetstream
        self.domain = ""
        self.tags: tuple[str, ...] = ()
        self.authenticator = Authenticator(users) if users is not None else None
        self._authenticators: dict[str, Authenticator] = {}
        self.password_checks = PasswordChecks()
        seed = nuid()
        self.server_id = nkey(_SERVER_PREFIX, seed)
        self.xkey = nkey(_CURVE_PREFIX, seed)
        self.server_name = server_name or self.server_id
        self.accounts: dict[str, Account] = {}
        self.sessions: dict[int, Connection] = {}
        self.host = ""
        self.port = 0
        self.advertised: tuple[str, int] | None = None
        self.cluster = ""
        self.connect_urls: tuple[str, ...] = ()
        self.ws_connect_urls: tuple[str, ...] = ()
        self.ws_address: tuple[str, int] | None = None
        self.ws_advertised: tuple[str, int] | None = None
        self.overloaded = False
        self.is_holding = False
        self.is_held = EVERYTHING
        self.held_bytes = 0
        self.blocked: dict[Connection, tuple[int, int]] = {}
        self.blocked_links: list[ServerLink] = []
        self.overload_changed: Subscribers[[]] = Subscribers()
        self.output_nearly_full = False
        self.ldm = False
        self.author_connection_types = AUTHORS_OVER_HTTP
        self.author_key = nuid().encode()
        self.trace_log: TraceLog | None = None
        self.left: Subscribers[[Connection]] = Subscribers()
        self.users_changed: Subscribers[[]] = Subscribers()
        self.connections_total = 0
        self.writes = 0
        self.stripped_bytes = 0
        self.reports = 0
        self.slow_consumers = self.slow_routes = 0
        self.disconnect_log = DisconnectLog(clock)
        self.descriptors = DescriptorReserve()
        self.stale_connections = self.stale_routes = 0
        self._last_client_id = 0
        self._departed = Traffic()
        self._waiting: list[PausedConnection] = []
        self.add_account("$G")
        self._add_accounts_of(users)

    def client_address(self) -> tuple[str, int]:
        """Return the host and port that INFO announces to clients.

        An advertised port 0 means the port on which the server listens.
        """
        if self.advertised is None:
            return self.host, self.port
        return self.advertised[0], self.advertised[1] or self.port

    def websocket_address(self) -> tuple[str, int] | None:
        """Return the host and port that are announced to WebSocket clients.

        None without WebSocket.
        """
        if self.ws_address is None or self.ws_advertised is None:
            return self.ws_address
        return self.ws_advertised[0], self.ws_advertised[1] or self.ws_address[1]

    def use_cluster(
        self, name: str, connect_urls: tuple[str, ...], ws_connect_urls: tuple[str, ...] = ()
    ) -> None:
        """Set the cluster's name and the addresses of its other servers.

        Send a changed INFO to clients.
        """
        is_new = (name, connect_urls) != (self.cluster, self.connect_urls)
        is_new_there = (name, ws_connect_urls) != (self.cluster, self.ws_connect_urls)
        self.cluster = name
        self.connect_urls, self.ws_connect_urls = connect_urls, ws_connect_urls
        if not self.ldm:  # lame duck mode is announced once
            self._announce_info(is_new, is_new_there)

    def begin_lame_duck(
        self, connect_urls: tuple[str, ...] = (), ws_connect_urls: tuple[str, ...] = ()
    ) -> None:
        """Ask all clients to connect to other servers, by an INFO with these addresses, if any."""
        self.ldm, self.connect_urls, self.ws_connect_urls = True, connect_urls, ws_connect_urls
        self._announce_info(True, True)

    def _announce_info(self, is_new: bool, is_new_over_websocket: bool) -> None:
        if not is_new and not is_new_over_websocket:
            return
        for session in self.sessions.values():
            if is_new_over_websocket if session.connection_type == WEBSOCKET else is_new:
                session.announce_info()
        self.loop_tick.arm()

    # -- accounts

    def add_account(self, name: str) -> Account:
        """Create an account and return it. It answers `$SYS.REQ.USER.INFO`."""
        account = self.accounts[name] = Account(name, self)
        answer_user_info(account)
        return account

    def _add_accounts_of(self, users: Users | None) -> None:
        for name in {user.account for user in users.users} if users is not None else ():
            if name not in self.accounts:
                self.add_account(name)

    def default_account(self) -> Account:
        """Return the account `$G`, to which connections belong before they authenticate."""
        return self.accounts["$G"]

    def authenticator_for(self, connection_type: str) -> Authenticator | None:
        """Return the authenticator for a connection type; None if no credentials are checked."""
        if connection_type == TRUSTED:
            return None
        return self._authenticators.get(connection_type, self.authenticator)

    def use_users_over(self, connection_type: str, users: Users | None) -> None:
        """Set the users for one connection type; None: the users of all other types apply.

        Connected clients are not affected.
        """
        self._add_accounts_of(users)
        before = self._authenticators.pop(connection_type, None)
        if users is not None:
            self._authenticators[connection_type] = Authenticator(users, before)

    def authenticate(
        self, connect: Connect, connection_type: str = "STANDARD"
    ) -> Identity | SlowCheck:
        """Return the identity of a client by its CONNECT.

        A bcrypt password needs a slow check, which is returned instead and has to be run in a
        thread.

        Raises:
            AuthError: The credentials are wrong.
        """
        if connection_type == TRUSTED:
            return Identity(connect.account or self.default_account().name)
        if connect.account or connect.new_account:
            raise AuthError("a client does not choose its account")
        if (authenticator := self.authenticator_for(connection_type)) is not None:
            return authenticator.authenticate(connect, connection_type)
        return Identity(user=connect.user or (HIDDEN if connect.auth_token else ""))

    # -- rules that change while clients are connected

    def use_users(self, users: Users | None, over_websocket: Users | None) -> None:
        """Replace the users. Connected clients whose credentials no longer suffice are closed.

        The others get their new permissions, and lose the subscriptions that these deny.

        Args:
            users: The users; None: no credentials are checked.
            over_websocket: Other users for WebSocket; None: the same ones.
        """
        self._add_accounts_of(users)
        before = self.authenticator
        self.authenticator = None if users is None else Authenticator(users, before)
        self.use_users_over("WEBSOCKET", over_websocket)
        for session in list(self.sessions.values()):
            session.reauthorize()
        self.loop_tick.arm()
        self.users_changed()

    def choose_publishers(self, account: str) -> None:
        """Apply the changed subject mappings of an account to its connected clients."""
        for session in self.sessions.values():
            if session.account.name == account:
                session.choose_publisher()

    def use_author_connection_types(self, author_connection_types: frozenset[str]) -> None:
        """Require permission for headers of messages over these connection types.

        Open connections are included.
        """
        self.author_connection_types = author_connection_types
        for session in self.sessions.values():
            session.choose_publisher()

    def use_limits(self, limits: Limits) -> None:
        """Replace the limits; they apply to connected clients too."""
        self.limits = limits
        for session in self.sessions.values():
            session.use_limits()

    def use_trace_log(self, trace_log: TraceLog | None) -> None:
        """Log the operations of all clients to `trace_log` from now on; None: do not log.

        Cached receivers contain the outputs of sessions, which change with the log, so the caches
        are dropped.
        """
        self.trace_log = trace_log
        for session in self.sessions.values():
            session.use_trace_log()
        for account in self.accounts.values():
            account.drop_receivers()

    # -- sessions

    def next_client_id(self) -> int:
        """Return a number for a new connection that no other connection of this process has had."""
        self._last_client_id += 1
        return self._last_client_id

    def join(self, session: Connection) -> None:
        """Add a new connection to `sessions` and count it."""
        self.sessions[session.client_id] = session
        self.connections_total += 1

    def leave(self, session: Connection) -> None:
        """Remove a closed connection; its counters stay in `totals`."""
        if self.sessions.pop(session.client_id, None) is not None:
            self._departed.add(session.count())
            self.left(session)

    def totals(self) -> Traffic:
        """Return the traffic of all connections since the start.

        As in nats-server, headers removed for a client without header support count here, but not
        in the numbers of the connection.
        """
        total = Traffic(out_bytes=self.stripped_bytes)
        total.add(self._departed)
        for session in self.sessions.values():
            total.add(session.count())
        return total

    # -- holding publishes while streams are loading

    def hold_publishes(self, is_held: HoldRule = EVERYTHING) -> None:
        """Read each session only up to its first held publish, until `resume_publishes`.

        `is_held` decides which publishes are held. A later call with another rule may release
        publishes that the earlier rule held.
        """
        if self.is_holding and is_held is self.is_held:
            return
        self.is_holding, self.is_held, self.held_bytes = True, is_held, 0
        is_held.reset()
        for session in list(self.sessions.values()):
            session.hold_publishes()

    def resume_publishes(self) -> None:
        """Stop holding publishes: each session publishes its held messages first."""
        if not self.is_holding:
            return
        self.is_holding, self.held_bytes = False, 0
        for session in list(self.sessions.values()):
            session.resume_publishes()

    def count_held(self, subject: bytes, nbytes: int) -> None:
        """Add bytes that a session keeps behind a held publish; a negative number: released bytes.

        When `is_full` becomes True, reading from all clients pauses.
        """
        self.held_bytes += nbytes
        self.is_held.count(subject, nbytes)
        if self.is_full:
            for session in self.sessions.values():
                if session.connection_type != TRUSTED:
                    session.pause()

    @property
    def is_full(self) -> bool:
        """True once the sessions keep `HELD_MAX` bytes of waiting publishes.

        All sessions then pause reading.
        """
        return self.held_bytes >= HELD_MAX

    # -- backpressure

    def begin_backpressure(self) -> None:
        """Set `overloaded`: sessions with large reads pause reading until `end_backpressure`."""
        if not self.overloaded:
            self.overloaded = True
            self.overload_changed()

    def end_backpressure(self) -> None:
        """Clear `overloaded`, and resume reading from the connections that wait."""
        self.overloaded = False
        self.overload_changed()
        waiting, self._waiting = self._waiting, []
        for session in waiting:
            session.resume()

    def resume_later(self, connection: PausedConnection) -> None:
        """Call `connection.resume` at the next `end_backpressure`; its reading is paused."""
        self._waiting.append(connection)


def nkey(prefix: int, seed: str) -> str:
    """Return a server id in the form of a public nkey: prefix, 32 bytes, CRC-16, in base 32.

    It has 56 characters. There is no private key: the server proves its identity with TLS alone.
    """
    raw = bytes((prefix,)) + hashlib.sha256(f"{prefix}{seed}".encode()).digest()
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode()
