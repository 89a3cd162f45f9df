"""The check of CONNECT credentials, which yields the identity of a connection.

A bcrypt hash takes long to compute. `Authenticator.authenticate` therefore never computes one: it
returns a `SlowCheck`, which the caller runs in a thread. For each hash, the verified password is
remembered (as a keyed digest, not as the password): a hash is computed once per user, not once per
connection.

The response time reveals nothing about wrong credentials. If any password is stored as a hash,
every refusal takes as long as the costliest hash, whether the user exists or not.
"""

import hmac
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import bcrypt

from core.auth.grant import Grant
from core.auth.users import User, Users, hash_cost, is_hash
from core.errors import AuthError
from core.protocol.connect import Connect

_PASSWORD_MAX = 72
"""Bytes of a password that bcrypt uses. As in nats-server, further bytes are ignored."""
_SALT = b"." * 22
HIDDEN = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of an authenticated connection.

    Attributes:
        account: The name of the account.
        user: The user name, as monitoring shows it; for a token, `[REDACTED]`.
        grant: The permissions; None: everything is allowed.
    """

    account: str = "$G"
    user: str = ""
    grant: Grant | None = None


@dataclass(frozen=True, slots=True)
class SlowCheck:
    """A pending check of credentials that needs the computation of a bcrypt hash.

    Attributes:
        user: The user name in CONNECT; empty for a token.
        digest: A keyed digest of the credentials; equal only for equal credentials.
        identity: The identity if the credentials are right; None: they cannot be right.
        stored: The hash to compare with; a text that is not a hash never matches.
        given: The first bytes of the password or token, as many as bcrypt uses (72).
        cost: The bcrypt cost of a refusal, as the logarithm to base 2 of its rounds.
    """

    user: str
    digest: bytes
    identity: Identity | None
    stored: str = field(repr=False)
    given: bytes = field(repr=False)
    cost: int

    def run(self) -> bool:
        """Return whether the credentials are right.

        Blocks for the time of the hash computation: call it in a thread.
        """
        spent = hash_cost(self.stored)
        if spent:
            # nats-server: all version letters of bcrypt have the meaning of the last one, b
            is_right = bcrypt.checkpw(self.given, b"$2b" + self.stored[3:].encode())
            if is_right and self.identity is not None:
                return True
        for cost in _costs_to(self.cost, spent):
            bcrypt.hashpw(self.given, b"$2b$%02d$" % cost + _SALT)
        return False


def _costs_to(cost: int, spent: int) -> Iterator[int]:
    """Yield the bcrypt costs of further hashes, so that all take as long as one hash of `cost`.

    `spent` is the cost of the hash computed already; two hashes of cost c take as long as one of
    c + 1.
    """
    yield from range(spent, cost) if spent else (cost,)


class Authenticator:
    """Checks the credentials of CONNECT, and determines the user.

    Args:
        users: The users that may connect.
        before: The authenticator that this one replaces, whose verified passwords remain valid;
            None: there is none.
    """

    def __init__(self, users: Users, before: "Authenticator | None" = None) -> None:
        self.users = users
        self._by_name = {user.name: user for user in users.users}
        self._grants = {
            user.name: Grant(user.permissions)
            for user in users.users
            if user.permissions is not None
        }
        stored = {users.token, *(user.password for user in users.users)}
        self._cost = max(map(hash_cost, stored))
        self._key: bytes = secrets.token_bytes(32) if before is None else before._key
        verified: dict[str, bytes] = {} if before is None else before._verified
        self._verified: dict[str, bytes] = {
            known: verified[known] for known in stored & verified.keys()
        }

    def no_auth_identity(self) -> Identity | None:
        """Return the identity of clients without credentials: that of `no_auth_user`.

        None if no such user is set: such clients are refused.
        """
        name = self.users.no_auth_user
        return self._identity(self._by_name[name]) if name else None

    def authenticate(self, connect: Connect, connection_type: str) -> Identity | SlowCheck:
        """Return the identity for the credentials of a CONNECT.

        Returns a `SlowCheck` instead if a hash has to be computed first. `connection_type` is
        STANDARD, WEBSOCKET or IN_PROCESS.

        Raises:
            AuthError: The credentials are wrong.
        """
        if _has_no_credentials(connect) and (identity := self.no_auth_identity()) is not None:
            return identity
        claimed, identity, stored, given = self._find_user(connect, connection_type)
        is_hashed = is_hash(stored)
        given = given[:_PASSWORD_MAX] if is_hashed else given
        digest = self._digest(stored, given)
        if identity is not None:
            expected = (
                self._verified.get(stored) if is_hashed else self._digest(stored, _raw(stored))
            )
            if expected is not None and hmac.compare_digest(digest, expected):
                return identity
        if not self._cost:
            raise AuthError("unknown user or wrong credentials")
        if not is_hashed:
            digest = self._digest(claimed, given)
            identity, stored = None, ""
        return SlowCheck(claimed, digest, identity, stored, given[:_PASSWORD_MAX], self._cost)

    def is_verified(self, check: SlowCheck) -> bool:
        """Return whether another check has verified the same credentials in the meantime."""
        known = None if check.identity is None else self._verified.get(check.stored)
        return known is not None and hmac.compare_digest(known, check.digest)

    def remember(self, check: SlowCheck) -> None:
        """Record that a check has verified its credentials; their hash is not computed again."""
        self._verified[check.stored] = check.digest

    def _find_user(
        self, connect: Connect, connection_type: str
    ) -> tuple[str, Identity | None, str, bytes]:
        """Return the user name of CONNECT, the identity, the stored credentials and the given ones.

        The identity applies if the credentials match; None means that the user cannot connect.
        """
        if self.users.token:
            found = Identity(user=connect.user or HIDDEN)
            return "", found, self.users.token, _raw(connect.auth_token)
        user = None if connect.nkey else self._by_name.get(connect.user)
        given = _raw(connect.password)
        if user is None:
            return connect.user, None, "", given
        may_connect = not user.connection_types or connection_type in user.connection_types
        identity = self._identity(user) if may_connect else None
        return connect.user, identity, user.password, given

    def _identity(self, user: User) -> Identity:
        return Identity(user.account, user.name, self._grants.get(user.name))

    def _digest(self, stored: str, given: bytes) -> bytes:
        text = _raw(stored)
        return hmac.digest(self._key, b"%d:%b%b" % (len(text), text, given), "sha256")


def _has_no_credentials(connect: Connect) -> bool:
    # a key or a JWT alone counts as none: neither is supported here
    return not (connect.user or connect.password or connect.auth_token)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
