"""Reads credentials from the cookies of a WebSocket handshake.

They are used for a CONNECT without credentials.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from core.protocol.connect import Connect, decode_connect

_ATTRIBUTES = ("user", "password", "auth_token")


@dataclass(frozen=True, slots=True)
class CookieCredentials:
    """The credentials in the cookies of an HTTP request; a field is empty without its cookie."""

    user: str = ""
    password: str = ""
    auth_token: str = ""

    def read_connect(self, body: bytes, before: Connect | None = None) -> Connect:
        """Decode the JSON of a CONNECT line; credentials it lacks are taken from the cookies.

        Fields it does not contain keep their values in `before`. Raises ProtocolError if it is
        invalid.
        """
        connect = decode_connect(body, before)
        for name in _ATTRIBUTES:
            if not getattr(connect, name):
                setattr(connect, name, getattr(self, name))
        return connect


def cookies(headers: Iterable[str]) -> dict[str, str]:
    """Parse the values of Cookie headers into a dictionary.

    The last of equal names wins, and malformed cookies are ignored.
    """
    found: dict[str, str] = {}
    for header in headers:
        for part in header.split(";"):
            name, _, value = part.strip(" \t").partition("=")
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            if all(" " <= letter < "\x7f" and letter not in '"\\' for letter in value):
                found[name.strip(" \t")] = value
    return found
