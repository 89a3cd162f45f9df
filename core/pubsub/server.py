"""The hub: what all connections of a node share.

Accounts, the turn, the limits, the sessions and their counters; and the lever against producers
that are faster than what consumes them: `press` makes sessions that bring much data stop reading,
`release` lets them go on.

`crowded` is set by a flush that leaves a session near `max_pending`; the producer whose read
was being served holds back for a moment. `blocked` lists the sessions whose sockets take no more,
with what they had taken by when. `ldm` says that clients should leave; `on_leave` is called with
every connection that was closed.

Sessions count for themselves; `totals` adds up the living and what the dead left behind.
"""

import hashlib
import random
from base64 import b32encode
from binascii import crc_hqx
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from core.auth.gate import HIDDEN, Gate, Identity
from core.auth.users import Users
from core.errors import AuthError
from core.protocol.connect import Connect
from core.pubsub.account import Account
from core.pubsub.limits import Limits
from core.pubsub.route import Session
from core.pubsub.user_info import answer_user_info
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.runtime.turn import Turn

if TYPE_CHECKING:
    from core.pubsub.mappings import Mapping

_SERVER_PREFIX = 13 << 3  # N
_CURVE_PREFIX = 23 << 3  # X
TRUSTED = "TRUSTED"
"""The kind of a connection that is a part of this server."""


@dataclass(slots=True)
class Traffic:
    """Messages and bytes in both directions, as plain counters."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0


class Waiter(Protocol):
    """Somebody who has stopped reading."""

    def resume(self) -> None:
        """Read again."""
        ...


class Connection(Waiter, Session, Protocol):
    """A session as the hub sees it."""

    traffic: Traffic
    account: Account

    def written(self) -> int:
        """Return how many bytes the socket has taken so far."""
        ...

    def close(self, reason: str, error: str = "") -> None:
        """Say why (if there is a text), write what gathered and close."""
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

    def tell_lame_duck(self) -> None:
        """Ask the client to go elsewhere."""
        ...

    def cut(self, reason: str) -> None:
        """Drop the connection at once, as a slow consumer."""
        ...

    def count(self) -> Traffic:
        """Bring `traffic` up to date and return it."""
        ...


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
        self.gate = Gate(users) if users is not None else None
        self.own_gates: dict[str, Gate] = {}
        seed = nuid()
        self.server_id = nkey(_SERVER_PREFIX, seed)
        self.xkey = nkey(_CURVE_PREFIX, seed)
        self.server_name = server_name or self.server_id
        self.accounts: dict[str, Account] = {}
        self.sessions: dict[int, Connection] = {}
        self.host = ""
        self.port = 0
        self.advertised: tuple[str, int] | None = None
        self.overloaded = False
        self.blocked: dict[Connection, tuple[int, int]] = {}
        self.crowded = False
        self.ldm = False
        self.on_leave: Callable[[Connection], None] | None = None
        self.connections_total = 0
        self.writes = 0
        self.slow_consumers = 0
        self.stale_connections = 0
        self._last_client_id = 0
        self._departed = Traffic()
        self._waiting: list[Waiter] = []
        self.add_account("$G")

    def place(self) -> tuple[str, int]:
        """Return where clients are told to find us; an advertised port 0 is the real one."""
        if self.advertised is None:
            return self.host, self.port
        return self.advertised[0], self.advertised[1] or self.port

    # -- accounts

    def add_account(self, name: str) -> Account:
        """Create an account with what every account offers."""
        account = self.accounts[name] = Account(name, self)
        answer_user_info(account)
        return account

    def default_account(self) -> Account:
        """Return the account of a connection that has not said who it is."""
        return self.accounts["$G"]

    def gate_for(self, connection_type: str) -> Gate | None:
        """Return who decides about connections of a kind; None: everybody may come."""
        return self.own_gates.get(connection_type, self.gate)

    def admit_by(self, connection_type: str, users: Users | None) -> None:
        """Take others for connections of a kind; None: those who hold for all."""
        self.own_gates.pop(connection_type, None)
        if users is not None:
            self.own_gates[connection_type] = Gate(users)

    def authenticate(self, connect: Connect, connection_type: str = "STANDARD") -> Identity:
        """Return who a CONNECT is from. Raises AuthError."""
        if connection_type == TRUSTED:
            return Identity(connect.account or self.default_account().name)
        if connect.account or connect.new_account:
            raise AuthError("a client does not choose its account")
        if (gate := self.gate_for(connection_type)) is not None:
            return gate.admit(connect, connection_type)
        return Identity(user=connect.user or (HIDDEN if connect.auth_token else ""))

    # -- rules that change while clients are connected

    def use_users(self, users: Users | None, over_websocket: Users | None) -> None:
        """Let these connect from now on; `over_websocket`: others there, None for the same.

        Connected clients that could not connect now are closed; the others get their new
        permissions, and lose the subscriptions that these do not allow.
        """
        self.gate = Gate(users) if users is not None else None
        self.admit_by("WEBSOCKET", over_websocket)
        for session in list(self.sessions.values()):
            session.reauthorize()
        self.turn.arm()

    def use_mappings(self, account: Account, mappings: "Sequence[Mapping]") -> None:
        """Map the subjects that clients of an account publish to, connected ones included."""
        account.mappings = None
        if mappings:
            from core.pubsub.mappings import Mappings  # a start without does not wait for it

            account.mappings = Mappings(mappings, random.random)
        for session in self.sessions.values():
            if session.account is account:
                session.choose_publisher()

    def use_limits(self, limits: Limits) -> None:
        """Limit what clients may use, connected ones included."""
        self.limits = limits
        for session in self.sessions.values():
            session.use_limits()

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
        """Let a closed connection go; its counters stay in the totals."""
        if self.sessions.pop(session.client_id, None) is not None:
            _add(self._departed, session.count())
            if self.on_leave is not None:
                self.on_leave(session)

    def totals(self) -> Traffic:
        """Return the traffic of all connections since the start."""
        total = Traffic()
        _add(total, self._departed)
        for session in self.sessions.values():
            _add(total, session.count())
        return total

    # -- back-pressure

    def press(self) -> None:
        """Have sessions that bring much data wait, from their next read on, until `release`."""
        self.overloaded = True

    def release(self) -> None:
        """Let all sessions that wait read again."""
        self.overloaded = False
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


def _add(total: Traffic, part: Traffic) -> None:
    total.in_msgs += part.in_msgs
    total.in_bytes += part.in_bytes
    total.out_msgs += part.out_msgs
    total.out_bytes += part.out_bytes
