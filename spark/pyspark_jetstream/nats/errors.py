"""Exceptions of the NATS client, and which of them are transient."""

from typing import Any


class NatsError(Exception):
    """Base class of the exceptions of the NATS client."""


class Disconnected(NatsError):
    """The connection broke, or no server could be reached. A new connection may succeed."""


class Rejected(NatsError):
    """The server refused the client (credentials, TLS, CONNECT). A retry does not help."""


class Denied(NatsError):
    """The user lacks a permission; the message is the server's and names the subject."""


class NoResponders(NatsError):
    """No subscription serves the subject of a request (status 503), as during a failover."""


class Timeout(NatsError):
    """The server did not answer a request within the timeout."""


class ProtocolError(NatsError):
    """The server sent bytes outside the NATS protocol, or a message without its required parts."""


class Refused(NatsError):
    """The server answered a request with an error.

    Args:
        code: Status as in HTTP, such as 404.
        err_code: JetStream's error number, such as 10059; 0 if there is none.
        description: The server's text.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} (code {code}, err_code {err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class Away(Refused):
    """The server answered with a transient error, for example that its storage is unavailable."""


PASSES = (Disconnected, Timeout, NoResponders, Away)
"""Exceptions after which a retry may succeed, for instance during a failover. All others
persist.
"""

_PASSING = {
    10008: "JetStream is unavailable: its storage, or the leader of the cluster",
    10009: "the node is no longer the leader",
    10023: "the server has no memory or storage for the moment",
}
"""Transient errors of JetStream by `err_code`. Every other error lasts until an operator acts."""

_FULL = 10077
"""`err_code` of a stream with `discard: new` that is full (transient), or of a too large
message.
"""
_TOO_MANY = 429


def refused(error: dict[str, Any]) -> Refused:
    """Convert the member `error` of a JetStream response to an exception.

    It is `Away` for a transient error, else `Refused`.
    """
    err_code = int(error.get("err_code", 0))
    kind = Away if err_code in _PASSING else Refused
    return kind(int(error.get("code", 0)), err_code, str(error.get("description", "")))


def is_passing(error: Refused) -> bool:
    """Return True if the error of a publish is transient, so that a retry may succeed."""
    if error.err_code == _FULL:
        return "too large" not in error.description
    return isinstance(error, Away) or error.code == _TOO_MANY


def is_unserved(error: Refused) -> bool:
    """Return True for the status 503 "no responders": no subscription serves the subject."""
    return error.code == 503 and not error.err_code
