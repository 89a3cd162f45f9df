"""Credentials that a browser brings as cookies, for a CONNECT that does not name them."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.protocol.connect import Connect, decode_connect

_ATTRIBUTES = ("user", "password", "auth_token")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the cookies of a request say; empty where they say nothing."""

    user: str = ""
    password: str = ""
    auth_token: str = ""

    def read_connect(self, body: bytes, before: Connect | None = None) -> Connect:
        """Read a CONNECT line; what it does not name, these do. Raises ProtocolError."""
        connect = decode_connect(body, before)
        for name in _ATTRIBUTES:
            if not getattr(connect, name):
                setattr(connect, name, getattr(self, name))
        return connect


def cookies(headers: Iterable[str]) -> dict[str, str]:
    """The cookies of Cookie headers; the last of one name counts, malformed ones do not."""
    found: dict[str, str] = {}
    for header in headers:
        for part in header.split(";"):
            name, _, value = part.strip(" \t").partition("=")
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            if all(" " <= letter < "\x7f" and letter not in '"\\' for letter in value):
                found[name.strip(" \t")] = value
    return found
