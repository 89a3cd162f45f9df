"""The hub: what all connections of a node share.

Accounts, users, limits, the open sessions and the sums of their counters. `use_users`, `use_limits`
and an account's `use_mappings` change the rules for connected clients too.

Back-pressure against producers that are faster than what consumes them: between `press` and
`release` the hub is `overloaded`, and sessions that bring much data do not read. `crowded` is set
by a flush that leaves a session near `max_pending`; the producer whose read was being served stops
reading for a moment. `blocked` lists the sessions whose sockets take no more: how many bytes they
had taken, and when that was found. `congested` are the links that have much unsent: who sends into
one of them waits until it has less. `overload_changed` is called when it has become overloaded, or
is no longer.

Between `hold_publishes` and `take_publishes` clients are served, but a session is read no further
than its first publish that has to wait (`is_held`). What the sessions have read of these by then
is kept; once that is `HELD_MAX` bytes together (`is_full`), no session reads any more. Before that
`is_held` may say that too much is kept for one purpose, and more publishes of that kind go on.

`cluster` is the name of the cluster, `connect_urls` where clients may connect to in its place,
those over WebSocket at `ws_connect_urls`: `use_cluster` tells them. `ldm` is lame duck mode:
clients should go elsewhere. Over connections of the types in `author_doors` the author of a message
needs permission for what its headers ask for (`core.auth.author`), and batches belong to their
connections. `left` is called with every connection that was closed; its counters stay in the
`totals`. `users_changed` is called after other users or permissions were applied to the connected
clients.
"""

import hashlib
from base64 import b32encode
from binascii import crc_hqx
from dataclasses import dataclass
from typing import Protocol

from core.auth.authenticator import HIDDEN, Authenticator, Identity, SlowCheck
from core.auth.users import Users
from core.errors import AuthError
from core.protocol.connect import Connect
from core.protocol.holding import EVERYTHING, Held
from core.protocol.parser import Publisher
from core.pubsub.account import Account
from core.pubsub.ending_log import EndingLog
from core.pubsub.hub_view import Waiter
from core.pubsub.limits import Limits
from core.pubsub.password_checks import PasswordChecks
from core.pubsub.route import Link, Session
from core.pubsub.trace_log import TraceLog
from core.pubsub.user_info import answer_user_info
from core.runtime.clock import Clock
from core.runtime.descriptors import DescriptorReserve
from core.runtime.nuid import nuid
from core.runtime.subscribers import Subscribers
from core.runtime.turn import Turn

HELD_MAX = 64 * 2**20
"""How many bytes of publishes that wait a node keeps; more stays in the sockets of clients."""
_SERVER_PREFIX = 13 << 3  # N
_CURVE_PREFIX = 23 << 3  # X
WEBSOCKET = "WEBSOCKET"
"""The type of a connection that came over WebSocket."""
IN_PROCESS = "IN_PROCESS"
"""The type of a connection inside this process that has the rights of its user."""
TRUSTED = "TRUSTED"
"""The type of a connection that a part of this server has: it may do everything."""

AUTHORS_OVER_HTTP = frozenset((IN_PROCESS,))
AUTHORS_OVER_NATS = frozenset(("STANDARD", WEBSOCKET))
"""The types of connections by which authors are asked what the headers of their messages want."""


@dataclass(slots=True)
class Traffic:
    """Messages in both directions, and the bytes of their headers and payloads."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def add(self, other: "Traffic") -> None:
        """Count what another counter has counted."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


class Connection(Waiter, Session, Protocol):
    """A client's connection, as all know it that cannot import its session.

    They are the hub, the parts of the session and the API. `ClientSession` says what the attributes
    mean. `started` is in nanoseconds since the Unix epoch, `rtt` in nanoseconds.
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
    started: int
    rtt: int

    @property
    def publisher(self) -> Publisher:
        """What the messages of the client go through."""
        ...

    def say(self, line: bytes) -> None:
        """Add a protocol line to the output."""
        ...

    def written(self) -> int:
        """Return how many bytes the socket has taken so far."""
        ...

    def close(self, reason: str, error: str = "") -> None:
        """Write what gathered, then an -ERR if there is a text for it, and close."""
        ...

    def use_limits(self) -> None:
        """Take over the hub's limits, which have changed."""
        ...

    def reauthorize(self) -> None:
        """Apply users and permissions that have changed, or close."""
        ...

    def choose_publisher(self) -> None:
        """Publish by what CONNECT, permissions and mappings say now."""
        ...

    def use_trace_log(self) -> None:
        """Log the operations of the client from now on, or no longer, as the hub wants it."""
        ...

    def hold_publishes(self) -> None:
        """Read no further than the first publish that the hub holds."""
        ...

    def publish_on(self) -> None:
        """Take publishes from now on, those first that were held."""
        ...

    def pause(self) -> None:
        """Read nothing until there is no hold any more, or another one."""
        ...

    def tell_info(self) -> None:
        """Send an INFO that has changed, to clients that read more than the first one."""
        ...

    def close_slow_consumer(self, reason: str) -> None:
        """Close the connection at once: it does not take what is written."""
        ...

    def count(self) -> Traffic:
        """Bring `traffic` up to date and return it."""
        ...


SYSTEM_ACCOUNT = "$SYS"
"""The account of whoever runs the servers: its users ask about the cluster, and have no streams."""


class Hub:
    """The shared state of one node's NATS side."""

    def __init__(
        self,
        turn: Turn,
        clock: Clock,
        *,
        limits: Limits | None = None,
        server_name: str = "",
        jetstream: bool = True,
        users: Users | None = None,
    ) -> None:
        self.turn = turn
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
        self.congested: list[Link] = []
        self.overload_changed: Subscribers[[]] = Subscribers()
        self.crowded = False
        self.ldm = False
        self.author_doors = AUTHORS_OVER_HTTP
        self.author_key = nuid().encode()
        self.trace_log: TraceLog | None = None
        self.left: Subscribers[[Connection]] = Subscribers()
        self.users_changed: Subscribers[[]] = Subscribers()
        self.connections_total = 0
        self.writes = 0
        self.stripped_bytes = 0
        self.reports = 0
        self.slow_consumers = self.slow_routes = 0
        self.endings = EndingLog(clock)
        self.descriptors = DescriptorReserve()
        self.stale_connections = self.stale_routes = 0
        self._last_client_id = 0
        self._departed = Traffic()
        self._waiting: list[Waiter] = []
        self.add_account("$G")
        self._add_accounts_of(users)

    def client_address(self) -> tuple[str, int]:
        """Return the host and port that clients are told; an advertised port 0 is the real one."""
        if self.advertised is None:
            return self.host, self.port
        return self.advertised[0], self.advertised[1] or self.port

    def websocket_address(self) -> tuple[str, int] | None:
        """Return the same for clients over WebSocket; None: that is not served."""
        if self.ws_address is None or self.ws_advertised is None:
            return self.ws_address
        return self.ws_advertised[0], self.ws_advertised[1] or self.ws_address[1]

    def use_cluster(
        self, name: str, connect_urls: tuple[str, ...], ws_connect_urls: tuple[str, ...] = ()
    ) -> None:
        """Let clients know of the servers of the cluster, those that are connected too."""
        is_new = (name, connect_urls) != (self.cluster, self.connect_urls)
        is_new_there = (name, ws_connect_urls) != (self.cluster, self.ws_connect_urls)
        self.cluster = name
        self.connect_urls, self.ws_connect_urls = connect_urls, ws_connect_urls
        if not self.ldm:  # which is said once
            self._tell_info(is_new, is_new_there)

    def begin_lame_duck(
        self, connect_urls: tuple[str, ...] = (), ws_connect_urls: tuple[str, ...] = ()
    ) -> None:
        """Tell clients that they should go elsewhere: to one of these, if there are any."""
        self.ldm, self.connect_urls, self.ws_connect_urls = True, connect_urls, ws_connect_urls
        self._tell_info(True, True)

    def _tell_info(self, is_new: bool, is_new_over_websocket: bool) -> None:
        if not is_new and not is_new_over_websocket:
            return
        for session in self.sessions.values():
            if is_new_over_websocket if session.connection_type == WEBSOCKET else is_new:
                session.tell_info()
        self.turn.arm()

    # -- accounts

    def add_account(self, name: str) -> Account:
        """Create an account that answers `$SYS.REQ.USER.INFO`, as every account does."""
        account = self.accounts[name] = Account(name, self)
        answer_user_info(account)
        return account

    def _add_accounts_of(self, users: Users | None) -> None:
        for name in {user.account for user in users.users} if users is not None else ():
            if name not in self.accounts:
                self.add_account(name)

    def default_account(self) -> Account:
        """Return the account of a connection that has not authenticated."""
        return self.accounts["$G"]

    def authenticator_for(self, connection_type: str) -> Authenticator | None:
        """Return what checks the credentials of connections of a type; None: nothing does."""
        if connection_type == TRUSTED:
            return None
        return self._authenticators.get(connection_type, self.authenticator)

    def use_users_over(self, connection_type: str, users: Users | None) -> None:
        """Let these connect by one type of connection; None: those who hold for all types.

        Connected clients stay as they are.
        """
        self._add_accounts_of(users)
        before = self._authenticators.pop(connection_type, None)
        if users is not None:
            self._authenticators[connection_type] = Authenticator(users, before)

    def authenticate(
        self, connect: Connect, connection_type: str = "STANDARD"
    ) -> Identity | SlowCheck:
        """Return who a CONNECT is from, or what has to be checked in a thread to know it.

        Raises:
            AuthError: the credentials are wrong.
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
        """Let these connect from now on; `over_websocket`: others there, None for the same.

        Connected clients that could not connect now are closed; the others get their new
        permissions, and lose the subscriptions that these do not allow.
        """
        self._add_accounts_of(users)
        before = self.authenticator
        self.authenticator = None if users is None else Authenticator(users, before)
        self.use_users_over("WEBSOCKET", over_websocket)
        for session in list(self.sessions.values()):
            session.reauthorize()
        self.turn.arm()
        self.users_changed()

    def choose_publishers(self, account: str) -> None:
        """Let connected clients of an account publish by its mappings, which have changed."""
        for session in self.sessions.values():
            if session.account.name == account:
                session.choose_publisher()

    def use_author_doors(self, author_doors: frozenset[str]) -> None:
        """Ask the authors of messages over these types of connections, connected ones included."""
        self.author_doors = author_doors
        for session in self.sessions.values():
            session.choose_publisher()

    def use_limits(self, limits: Limits) -> None:
        """Limit what clients may use, connected ones included."""
        self.limits = limits
        for session in self.sessions.values():
            session.use_limits()

    def use_trace_log(self, trace_log: TraceLog | None) -> None:
        """Log the operations of clients there from now on, connected ones included; None: do not.

        Routes hold the outputs of sessions, which are others while they are logged.
        """
        self.trace_log = trace_log
        for session in self.sessions.values():
            session.use_trace_log()
        for account in self.accounts.values():
            account.forget_routes()

    # -- sessions

    def next_client_id(self) -> int:
        """Return a number no connection of this node has had."""
        self._last_client_id += 1
        return self._last_client_id

    def join(self, session: Connection) -> None:
        """Take a new connection in."""
        self.sessions[session.client_id] = session
        self.connections_total += 1

    def leave(self, session: Connection) -> None:
        """Take a closed connection out; its counters stay in the totals."""
        if self.sessions.pop(session.client_id, None) is not None:
            self._departed.add(session.count())
            self.left(session)

    def totals(self) -> Traffic:
        """Return the traffic of all connections since the start.

        As in the reference server, what a client without headers got counts here with them, and
        with the connection without.
        """
        total = Traffic(out_bytes=self.stripped_bytes)
        total.add(self._departed)
        for session in self.sessions.values():
            total.add(session.count())
        return total

    # -- while something is still being loaded

    def hold_publishes(self, is_held: Held = EVERYTHING) -> None:
        """Have publishes wait until `take_publishes`: who sends one is not read on.

        `is_held`: which have to; another one than before may let some go on.
        """
        if self.is_holding and is_held is self.is_held:
            return
        self.is_holding, self.is_held, self.held_bytes = True, is_held, 0
        is_held.forget()
        for session in list(self.sessions.values()):
            session.hold_publishes()

    def take_publishes(self) -> None:
        """Take what clients publish, first what was held."""
        if not self.is_holding:
            return
        self.is_holding, self.held_bytes = False, 0
        for session in list(self.sessions.values()):
            session.publish_on()

    def keep(self, subject: bytes, nbytes: int) -> None:
        """Count what a session keeps since a publish on this subject waits; negative: no longer."""
        self.held_bytes += nbytes
        self.is_held.keep(subject, nbytes)
        if self.is_full:
            for session in self.sessions.values():
                if session.connection_type != TRUSTED:
                    session.pause()

    @property
    def is_full(self) -> bool:
        """Whether so much is kept that nothing more is read."""
        return self.held_bytes >= HELD_MAX

    # -- back-pressure

    def press(self) -> None:
        """Have sessions that bring much data wait, from their next read on, until `release`."""
        if not self.overloaded:
            self.overloaded = True
            self.overload_changed()

    def release(self) -> None:
        """Let all sessions that wait read again."""
        self.overloaded = False
        self.overload_changed()
        waiting, self._waiting = self._waiting, []
        for session in waiting:
            session.resume()

    def wait(self, waiter: Waiter) -> None:
        """Keep a session, or a remote, that stopped reading until `release`."""
        self._waiting.append(waiter)


def nkey(prefix: int, seed: str) -> str:
    """Return 56 characters in the form of a public key: prefix, 32 bytes, CRC-16, base 32.

    Nobody holds a private half: the server proves its identity with TLS, not with this.
    """
    raw = bytes((prefix,)) + hashlib.sha256(f"{prefix}{seed}".encode()).digest()
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode()
