"""Parsing of credentials in HTTP: Authorization, a WebSocket sub-protocol, and cookies."""

import hashlib
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gateway.http.problems import Problem

_SUBPROTOCOL = "bearer."
_BASIC = 'Basic realm="jetgate", Bearer realm="jetgate"'
_BEARER = 'Bearer realm="jetgate"'


@dataclass(frozen=True)
class Credentials:
    """A user with a password, or a token; the NATS server verifies them. Missing ones are empty."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @cached_property
    def key(self) -> bytes:
        """A SHA-256 digest that is unique to these credentials."""
        text = f"{len(self.user)}:{self.user}{len(self.token)}:{self.token}{self.password}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    @property
    def name(self) -> str:
        """A name that may be shown: the user, "token" if there is only a token, or empty."""
        return self.user or ("token" if self.token else "")


def from_header(authorization: str) -> Credentials:
    """Parse `Authorization: Basic` (RFC 7617) or `Bearer` (RFC 6750).

    Raises Problem 401 for another scheme, an empty value, or malformed base64.
    """
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
    """Return the token in the sub-protocol `bearer.<token in base64url>` of a WebSocket handshake.

    None if no sub-protocol starts with `bearer.`. Raises Problem 401 if the token is empty or not
    base64url, or if there are two such sub-protocols.
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
    """Return the value of a cookie in request headers (RFC 6265); empty if missing or present
    twice.
    """
    wanted, values = name.encode(), []
    for header, text in headers:
        if header == b"cookie":
            for pair in text.split(b";"):
                key, _, value = pair.strip().partition(b"=")
                if key == wanted:
                    values.append(value.decode("latin-1"))
    return values[0] if len(values) == 1 else ""


def for_scripts(problem: Problem, headers: Iterable[tuple[bytes, bytes]]) -> Problem:
    """Reduce the challenge of a 401 response to `Bearer` if a script sent the request.

    A browser opens its own password dialog for the challenge `Basic`, but scripts ask for
    credentials themselves. A request is from a script if it has `X-Requested-With`, or the exact
    header `Accept: text/event-stream`, which `EventSource` sends.
    """
    if problem.status == 401 and any(
        name == b"x-requested-with" or (name == b"accept" and value == b"text/event-stream")
        for name, value in headers
    ):
        problem.headers["WWW-Authenticate"] = _BEARER
    return problem


def unauthorized(detail: str, kind: str = "unauthorized", *, offers_basic: bool = True) -> Problem:
    """Return a Problem 401. If `offers_basic` is False, WWW-Authenticate names only `Bearer`.

    A browser opens a password dialog for `Basic`, and none for `Bearer`.
    """
    challenge = {"WWW-Authenticate": _BASIC if offers_basic else _BEARER}
    return Problem(401, kind, detail, headers=challenge)
