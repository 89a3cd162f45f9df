"""Events of the façade that an operator may want to know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class RequestDone(NamedTuple):
    """A request with a response. `seconds` is the time until the response began."""

    operation: str
    method: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request that failed by an internal error, not by a mistake of the client."""

    operation: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """A request with credentials that the server refuses; `user` is the name in the request."""

    address: str
    user: str


OperatorEvent = RequestDone | RequestFailed | AuthenticationFailed
ReportEvent = Callable[[OperatorEvent], None]
