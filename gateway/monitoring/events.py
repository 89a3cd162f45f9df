"""Events of the HTTP server for logs and metrics: finished and failed requests, refused logins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class RequestDone(NamedTuple):
    """An HTTP request with a response.

    `seconds` is the time from the request to the start of the response; `operation` is the id in
    the route table.
    """

    operation: str
    method: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """An HTTP request that failed by an internal error (status 500)."""

    operation: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """An HTTP request whose credentials the NATS server refuses.

    `address` is the network address of the client, `user` the name in the request (empty for
    tokens).
    """

    address: str
    user: str


OperatorEvent = RequestDone | RequestFailed | AuthenticationFailed
ReportEvent = Callable[[OperatorEvent], None]
