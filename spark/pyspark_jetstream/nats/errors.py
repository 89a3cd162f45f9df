"""What goes wrong on a NATS connection."""

from typing import Any


class NatsError(Exception):
    """The client could not do what it was asked."""


class Disconnected(NatsError):
    """The connection broke or no server could be reached; the same may work on another one."""


class Rejected(NatsError):
    """The server refused the client (credentials, TLS, its CONNECT); trying again does not help."""


class Denied(NatsError):
    """A permission is missing; the message is the server's and names the subject."""


class NoResponders(NatsError):
    """Nobody serves the subject of a request, as while a node takes over."""


class Timeout(NatsError):
    """A request was not answered in time."""


class ProtocolError(NatsError):
    """What the server sent is no NATS protocol, or is none that a client is sent."""


class Refused(NatsError):
    """An API answered with an error.

    Args:
        code: As in HTTP, such as 404.
        err_code: JetStream's own number, such as 10059; 0 when there is none.
        description: The server's words.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} (code {code}, err_code {err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class Away(Refused):
    """An API that cannot do it now, as while its storage is away; soon it may."""


PASSES = (Disconnected, Timeout, NoResponders, Away)
"""Errors that pass, as when a node takes over from another one; every other one stays."""

_PASSING = {
    10008: "JetStream is away: its storage, or the leader of the cluster",
    10009: "the node that was asked does not lead any more",
    10023: "the server has no memory or storage for the moment",
}
"""Errors of JetStream's API that pass; every other number stays until somebody mends something."""

_FULL = 10077
"""A stream with `discard: new` is full, which passes; or the message is too large, which stays."""
_TOO_MANY = 429


def refused(error: dict[str, Any]) -> Refused:
    """The error in an answer of an API."""
    err_code = int(error.get("err_code", 0))
    kind = Away if err_code in _PASSING else Refused
    return kind(int(error.get("code", 0)), err_code, str(error.get("description", "")))


def is_passing(error: Refused) -> bool:
    """Whether a stream that refused a message may take the same one soon."""
    if error.err_code == _FULL:
        return "too large" not in error.description
    return isinstance(error, Away) or error.code == _TOO_MANY


def is_unserved(error: Refused) -> bool:
    """Whether it is the server's status that nobody subscribes to a subject."""
    return error.code == 503 and not error.err_code
