"""The check of credentials: which user is it that connects.

A password that was found right is remembered (as a keyed digest, not the password), because its
bcrypt hash takes long to compute: once per user, not once per connection. `is_slow` says whether a
check would have to compute one; then `authenticate` belongs into a thread.
"""

import hmac
import secrets
from dataclasses import dataclass

import bcrypt

from core.auth.grant import Grant
from core.auth.users import User, Users, is_hash
from core.errors import AuthError
from core.protocol.connect import Connect

_VERIFIED_MAX = 4096
HIDDEN = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a connection turned out to be.

    Attributes:
        account: the account's name.
        user: as monitoring shows it; a token is not shown.
        grant: what it may publish and subscribe; None: everything.
    """

    account: str = "$G"
    user: str = ""
    grant: Grant | None = None


class Authenticator:
    """Tells by the credentials of a CONNECT which of `users` it is from."""

    def __init__(self, users: Users) -> None:
        self.users = users
        self._by_name = {user.name: user for user in users.users}
        self._grants = {
            user.name: Grant(user.permissions)
            for user in users.users
            if user.permissions is not None
        }
        self._key = secrets.token_bytes(32)
        self._verified: set[bytes] = set()

    def no_auth_identity(self) -> Identity | None:
        """Return who a client without credentials is (`no_auth_user`); None: it is refused."""
        name = self.users.no_auth_user
        return self._identity(self._by_name[name]) if name else None

    def is_slow(self, connect: Connect) -> bool:
        """Say whether `authenticate` would take a noticeable fraction of a second."""
        stored, given = self._secret(connect)
        return is_hash(stored) and self._digest(stored, given) not in self._verified

    def authenticate(self, connect: Connect, connection_type: str) -> Identity:
        """Return who a CONNECT is from. Raises AuthError."""
        if _has_no_credentials(connect) and (identity := self.no_auth_identity()) is not None:
            return identity
        stored, given = self._secret(connect)
        if self.users.token:
            if not self._is_right(stored, given):
                raise AuthError("wrong token")
            return Identity(user=connect.user or HIDDEN)
        user = self._by_name.get(connect.user)
        if user is None or connect.nkey or not self._is_right(stored, given):
            raise AuthError("unknown user or wrong password")
        if user.connection_types and connection_type not in user.connection_types:
            raise AuthError(f"user {user.name} may not connect this way")
        return self._identity(user)

    def _identity(self, user: User) -> Identity:
        return Identity(user.account, user.name, self._grants.get(user.name))

    def _secret(self, connect: Connect) -> tuple[str, str]:
        """Return what is stored for the claimed identity, and what the client says."""
        if self.users.token:
            return self.users.token, connect.auth_token
        user = self._by_name.get(connect.user)
        return (user.password, connect.password) if user else ("", "")

    def _is_right(self, stored: str, given: str) -> bool:
        if not is_hash(stored):
            return hmac.compare_digest(_raw(stored), _raw(given))
        digest = self._digest(stored, given)
        if digest in self._verified:
            return True
        try:
            right = bcrypt.checkpw(_raw(given)[:72], _raw(stored))
        except ValueError:  # not a hash after all
            return False
        if right:
            if len(self._verified) >= _VERIFIED_MAX:
                self._verified.clear()
            self._verified.add(digest)
        return right

    def _digest(self, stored: str, given: str) -> bytes:
        return hmac.digest(self._key, _raw(f"{len(stored)}:{stored}{given}"), "sha256")


def _has_no_credentials(connect: Connect) -> bool:
    # a key or a JWT alone says nothing here, where neither is known
    return not (connect.user or connect.password or connect.auth_token)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
