"""The configuration of a remote, another NATS system: name, address and credentials."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_RESERVED = frozenset(("API", "ACK", "FC", "M", "S", "EVENT", "KV", "SRC"))
_LEAF = "nats-leaf"
_SCHEMES = ("nats", "tcp", "tls", _LEAF)
_LEAF_PORT = 7422
_KEYS = ("name", "url", "creds")
PORT = 4222


@dataclass(frozen=True, slots=True)
class Remote:
    """The configuration of a remote, another NATS system that this server connects to.

    Attributes:
        name: One token; the remote's API has the prefix `$JS.<name>.API` on this server.
        url: `nats://[user:password@|token@]host[:port]`: this server uses the remote's API;
            `tls://...`: the same, but never without TLS; `nats-leaf://...`: the remote uses this
            server's API.
        creds: Path of a credentials file (user JWT and nkey seed), read at every connection; empty:
            none.

    Raises:
        ConfigError: A value is invalid.
    """

    name: str
    url: str
    creds: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                "remote name", f"{self.name!r}: expected 1 to 32 letters, digits, - and _"
            )
        if self.name in _RESERVED:
            raise ConfigError("remote name", f"{self.name!r} has a meaning in $JS.{self.name}")
        try:
            parts = urlsplit(self.url)
            usable = bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(
                f"remote {self.name}", f"{self.shown!r} is no address: expected nats://host:port"
            )
        if parts.scheme not in _SCHEMES:
            raise ConfigError(
                f"remote {self.name}",
                f"{parts.scheme}:// is not served: expected nats://, tls:// or nats-leaf://host:port",
            )

    @property
    def shown(self) -> str:
        """The address for logs, without user, password and token."""
        head, at, rest = self.url.rpartition("@")
        scheme = head.partition("//")[0] + "//" if "//" in head else ""
        return f"{scheme}***@{rest}" if at else self.url

    @property
    def is_offer(self) -> bool:
        """True if the remote uses this server's API (`nats-leaf://`).

        False if this server uses the remote's.
        """
        return urlsplit(self.url).scheme == _LEAF

    @property
    def address(self) -> str:
        """The URL to connect to: scheme (`tls` requires TLS), host, port; no credentials."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        scheme = "tls" if parts.scheme == "tls" else "nats"
        return f"{scheme}://{host}:{parts.port or (_LEAF_PORT if self.is_offer else PORT)}"

    @property
    def login(self) -> tuple[str, str, str]:
        """User, password and token in the address, each empty if not given.

        A user without a password is a token, as for every NATS client.
        """
        parts = urlsplit(self.url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return (user, password, "") if parts.password is not None else ("", "", user)


def remotes_of(value: Any) -> tuple[Remote, ...]:
    """Decode the block `remotes` of a configuration file into remotes.

    The block is one remote (`{name, url, creds}`), an array of them, or a map from names to the
    other fields.

    Raises:
        ConfigError: The block is invalid.
    """
    if isinstance(value, dict) and "name" in value and "url" in value:
        found = [_remote(value)]
    elif isinstance(value, dict):
        found = [_remote(_named(name, fields)) for name, fields in value.items()]
    elif isinstance(value, list):
        found = [_remote(fields) for fields in value]
    else:
        raise ConfigError("remotes", f"expected {{name, url, creds}}, got {value!r}")
    names = [remote.name for remote in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("remotes", f"two are called {name!r}")
    return tuple(found)


def _named(name: str, fields: Any) -> Any:
    return {"name": name} | fields if isinstance(fields, dict) else fields


def _remote(fields: Any) -> Remote:
    if not isinstance(fields, dict):
        raise ConfigError("remotes", f"expected {{name, url, creds}}, got {fields!r}")
    for key in fields:
        if key not in _KEYS:
            raise ConfigError("remotes", f"unknown field {key!r}, expected name, url and creds")
    for key in ("name", "url"):
        if not isinstance(fields.get(key), str):
            raise ConfigError("remotes", f"a remote needs a {key}")
    return Remote(fields["name"], fields["url"], str(fields.get("creds", "")))
