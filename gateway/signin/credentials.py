"""Credentials as HTTP carries them: the Authorization header, a sub-protocol, a cookie."""

import hashlib
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gateway.problems import Problem

_SUBPROTOCOL = "bearer."
_BASIC = 'Basic realm="jetgate", Bearer realm="jetgate"'
_BEARER = 'Bearer realm="jetgate"'


@dataclass(frozen=True)
class Credentials:
    """A user with a password, or a token; those not given are empty. The server judges them."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @cached_property
    def key(self) -> bytes:
        """A digest that no other credentials have."""
        text = f"{len(self.user)}:{self.user}{len(self.token)}:{self.token}{self.password}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    @property
    def name(self) -> str:
        """What may be shown: the user, or that it is a token."""
        return self.user or ("token" if self.token else "")


def from_header(authorization: str) -> Credentials:
    """Read `Authorization: Basic` (RFC 7617) or `Bearer` (RFC 6750). Raises Problem 401."""
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return Credentials(token=value)
    if scheme.lower() == "basic" and value:
        try:
            user, colon, password = b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            raise unauthorized("Authorization: Basic needs base64 of user:password") from None
        if colon:
            return Credentials(user, password)
    raise unauthorized("Authorization: Basic or Bearer credentials are needed")


def from_subprotocols(protocols: Iterable[str]) -> Credentials | None:
    """Read the sub-protocol `bearer.<token in base64url>` of a WebSocket handshake, if it is there.

    Raises Problem 401 when it is no base64url, or there twice.
    """
    found = [name for name in protocols if name.startswith(_SUBPROTOCOL)]
    if not found:
        return None
    text = found[0].removeprefix(_SUBPROTOCOL)
    try:
        token = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        token = ""
    if not token or len(found) > 1:
        raise unauthorized("Sec-WebSocket-Protocol: one bearer.<base64url of a token> is needed")
    return Credentials(token=token)


def cookie_of(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of a cookie (RFC 6265); empty when it is not there, or there twice."""
    wanted, values = name.encode(), []
    for header, text in headers:
        if header == b"cookie":
            for pair in text.split(b";"):
                key, _, value = pair.strip().partition(b"=")
                if key == wanted:
                    values.append(value.decode("latin-1"))
    return values[0] if len(values) == 1 else ""


def for_scripts(problem: Problem, headers: Iterable[tuple[bytes, bytes]]) -> Problem:
    """The same 401 for the script of a page, which asks for credentials itself.

    Scripts say so by `X-Requested-With`, which `EventSource` cannot, but nobody else accepts events
    alone; at a challenge `Basic` the browser would ask as well, in a dialog that the page knows
    nothing of.
    """
    if problem.status == 401 and any(
        name == b"x-requested-with" or (name == b"accept" and value == b"text/event-stream")
        for name, value in headers
    ):
        problem.headers["WWW-Authenticate"] = _BEARER
    return problem


def unauthorized(detail: str, kind: str = "unauthorized", *, asks: bool = True) -> Problem:
    """A 401. Without `asks` it names no scheme for which a browser shows a dialog of its own."""
    challenge = {"WWW-Authenticate": _BASIC if asks else _BEARER}
    return Problem(401, kind, detail, headers=challenge)
