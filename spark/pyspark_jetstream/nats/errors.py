"""Errors of a NATS connection."""

from typing import Any


class NatsError(Exception):
    """Base class of the client's errors."""


class Disconnected(NatsError):
    """The connection broke, or no server could be reached. A new connection may succeed."""


class Rejected(NatsError):
    """The server refused the client (credentials, TLS, CONNECT). A retry does not help."""


class Denied(NatsError):
    """A permission is missing; the message is the server's and names the subject."""


class NoResponders(NatsError):
    """No subscription serves the subject of a request, as during a failover."""


class Timeout(NatsError):
    """A request was not answered in time."""


class ProtocolError(NatsError):
    """The server sent bytes outside the NATS protocol, or an operation not meant for clients."""


class Refused(NatsError):
    """An error in the answer of an API.

    Args:
        code: Status as in HTTP, such as 404.
        err_code: JetStream's own number, such as 10059; 0 if there is none.
        description: The server's text.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} (code {code}, err_code {err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class Away(Refused):
    """A temporary failure of an API, as while its storage is away."""


PASSES = (Disconnected, Timeout, NoResponders, Away)
"""Transient errors, as during a failover. Every other error persists."""

_PASSING = {
    10008: "JetStream is unavailable: its storage, or the leader of the cluster",
    10009: "the node is no longer the leader",
    10023: "the server has no memory or storage for the moment",
}
"""Transient errors of JetStream's API. Every other number persists until an operator acts."""

_FULL = 10077
"""Either a stream with `discard: new` is full (transient), or the message is too large."""
_TOO_MANY = 429


def refused(error: dict[str, Any]) -> Refused:
    """Return the exception for the error object in an answer of an API."""
    err_code = int(error.get("err_code", 0))
    kind = Away if err_code in _PASSING else Refused
    return kind(int(error.get("code", 0)), err_code, str(error.get("description", "")))


def is_passing(error: Refused) -> bool:
    """Return True if the stream may accept the refused message soon."""
    if error.err_code == _FULL:
        return "too large" not in error.description
    return isinstance(error, Away) or error.code == _TOO_MANY


def is_unserved(error: Refused) -> bool:
    """Return True for the server's status 503: no subscription serves the subject."""
    return error.code == 503 and not error.err_code
