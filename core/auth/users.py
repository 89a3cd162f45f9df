"""The users that may connect with their permissions, or one token for all clients. Immutable.

Without a `Users` object, every client may connect and everything is allowed.
"""

import re
from dataclasses import dataclass, field

from core.errors import ConfigError
from core.subjects.subject import is_valid_filter
from core.units import Seconds

_HASH_BEGINS = re.compile(r"\$2[abxy]\$[0-9]{2}\$")
_HASH = re.compile(r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./0-9A-Za-z]{53}")
AUTH_TIMEOUT = Seconds(2.0)
RESPONSES_MAX = 1
RESPONSES_TTL = Seconds(120.0)


def is_hash(password: str) -> bool:
    """Return whether a password begins like a bcrypt hash."""
    return _HASH_BEGINS.match(password) is not None


def hash_cost(password: str) -> int:
    """Return the cost of a bcrypt hash, from 4 to 31; 0 if it is not a valid hash."""
    match = _HASH.fullmatch(password)
    return 0 if match is None else int(match[1])


@dataclass(frozen=True, slots=True)
class Rule:
    """The subjects to which a user may publish or subscribe; `deny` takes precedence.

    `allow` None means all subjects, an empty tuple means none. Entries are subject filters. An
    entry for subscriptions may name a queue after a blank (`orders.* v1.>`). It then applies to
    queue subscriptions of that name, and the name may be a filter.

    Raises:
        ConfigError: An entry is not a valid subject.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in (*(self.allow or ()), *self.deny):
            parts = entry.split()
            if not 1 <= len(parts) <= 2 or not is_valid_filter(parts[0].encode()):
                raise ConfigError("permissions", f"{entry!r} is not a subject")


@dataclass(frozen=True, slots=True)
class Responses:
    """The permission to publish to the reply subjects of received messages (`allow_responses`).

    Attributes:
        limit: Largest number of answers per reply subject; 0 or less: any number.
        ttl: Seconds after delivery during which answers are permitted; 0 or less: no limit.
    """

    limit: int = RESPONSES_MAX
    ttl: Seconds = RESPONSES_TTL


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of a user to publish, to subscribe and to answer.

    If `responses` is set and `publish.allow` is None, no subject is allowed besides answers.

    Raises:
        ConfigError: An entry for publishing names a queue.
    """

    publish: Rule = field(default_factory=Rule)
    subscribe: Rule = field(default_factory=Rule)
    responses: Responses | None = None

    def __post_init__(self) -> None:
        if self.responses is not None and self.publish.allow is None:
            object.__setattr__(self, "publish", Rule((), self.publish.deny))
        for entry in (*(self.publish.allow or ()), *self.publish.deny):
            if len(entry.split()) != 1:
                raise ConfigError("permissions", f"{entry!r}: a permission to publish has no queue")


@dataclass(frozen=True, slots=True)
class User:
    """One user that may connect.

    Attributes:
        name: The user name, as in the member `user` of CONNECT.
        password: The password in clear, or its bcrypt hash (`$2a$...`).
        permissions: The permissions; None: no restrictions.
        connection_types: Permitted types, of STANDARD, WEBSOCKET, IN_PROCESS; empty: all.
        account: The account of the user.
    """

    name: str
    password: str = field(default="", repr=False)
    permissions: Permissions | None = None
    connection_types: frozenset[str] = frozenset()
    account: str = "$G"


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """All users that may connect, or the one token that every client needs.

    Attributes:
        users: The users; empty with a token.
        token: The token in clear, or its bcrypt hash; empty: none.
        no_auth_user: Name of the user of clients without credentials (empty: they are refused).
        timeout: Seconds from the connection in which a client must send CONNECT.

    Raises:
        ConfigError: Neither users nor a token are set, or both, a user name is empty or used twice,
            or `no_auth_user` does not exist.
    """

    users: tuple[User, ...] = ()
    token: str = field(default="", repr=False)
    no_auth_user: str = ""
    timeout: Seconds = AUTH_TIMEOUT

    def __post_init__(self) -> None:
        names = [user.name for user in self.users]
        if self.token and self.users:
            raise ConfigError("authorization", "a token and users exclude each other")
        if not self.token and not self.users:
            raise ConfigError("authorization", "neither a token nor users")
        for name in names:
            if not name or names.count(name) > 1:
                raise ConfigError("authorization", f"user {name!r} is empty or a duplicate")
        if self.no_auth_user and self.no_auth_user not in names:
            raise ConfigError("no_auth_user", f"there is no user {self.no_auth_user!r}")

    def named(self, name: str) -> User | None:
        """Return the user with the given name; None if there is none."""
        return next((user for user in self.users if user.name == name), None)
