"""Who may connect, as a value: users with their permissions, or one token.

Without a `Users`, everybody may connect and do everything.
"""

import re
from dataclasses import dataclass, field

from core.errors import ConfigError
from core.subjects.subject import is_valid_filter

_HASH_BEGINS = re.compile(r"\$2[abxy]\$[0-9]{2}\$")
_HASH = re.compile(r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./0-9A-Za-z]{53}")
AUTH_TIMEOUT = 2.0
RESPONSES_MAX = 1
RESPONSES_TTL = 120.0


def is_hash(password: str) -> bool:
    """Whether a password is stored as its bcrypt hash, or as what begins like one."""
    return _HASH_BEGINS.match(password) is not None


def hash_cost(password: str) -> int:
    """Return the cost of a bcrypt hash, 4 to 31; 0: it is none that could be computed."""
    match = _HASH.fullmatch(password)
    return 0 if match is None else int(match[1])


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be published, or subscribed; `deny` wins. `allow` None means all, an empty one none.

    Entries are filters. Those of subscriptions may name a queue after a blank ("orders.* v1.>"):
    then they speak of queue subscriptions of that name, which may itself be a filter.
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
    """Permission to publish to the reply subject of a message that was received.

    Attributes:
        limit: how many answers each reply subject may get; 0 or less: any number.
        ttl: for how many seconds; 0 or less: for ever.
    """

    limit: int = RESPONSES_MAX
    ttl: float = RESPONSES_TTL


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a user may publish and subscribe.

    With `responses` (allow_responses), `publish.allow` None means none, not all.
    """

    publish: Rule = field(default_factory=Rule)
    subscribe: Rule = field(default_factory=Rule)
    responses: Responses | None = None

    def __post_init__(self) -> None:
        if self.responses is not None and self.publish.allow is None:
            object.__setattr__(self, "publish", Rule((), self.publish.deny))
        for entry in (*(self.publish.allow or ()), *self.publish.deny):
            if len(entry.split()) != 1:
                raise ConfigError("permissions", f"{entry!r}: publishing knows no queues")


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Attributes:
        name: what CONNECT says as `user`.
        password: in clear, or its bcrypt hash (`$2a$...`).
        permissions: None: no restrictions.
        connection_types: STANDARD, WEBSOCKET, IN_PROCESS; empty: all.
        account: where the user belongs.
    """

    name: str
    password: str = field(default="", repr=False)
    permissions: Permissions | None = None
    connection_types: frozenset[str] = frozenset()
    account: str = "$G"


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """All who may connect: `users`, or whoever knows the `token` (in clear, or its bcrypt hash).

    Attributes:
        no_auth_user: the user that a client without any credentials is.
        timeout: seconds a client has for its CONNECT.

    Raises:
        ConfigError: nobody could connect, or names are not distinct.
    """

    users: tuple[User, ...] = ()
    token: str = field(default="", repr=False)
    no_auth_user: str = ""
    timeout: float = AUTH_TIMEOUT

    def __post_init__(self) -> None:
        names = [user.name for user in self.users]
        if self.token and self.users:
            raise ConfigError("authorization", "a token and users exclude each other")
        if not self.token and not self.users:
            raise ConfigError("authorization", "neither a token nor users")
        for name in names:
            if not name or names.count(name) > 1:
                raise ConfigError("authorization", f"user {name!r} is empty or there twice")
        if self.no_auth_user and self.no_auth_user not in names:
            raise ConfigError("no_auth_user", f"there is no user {self.no_auth_user!r}")

    def named(self, name: str) -> User | None:
        """Return the user of that name, if there is one."""
        return next((user for user in self.users if user.name == name), None)
