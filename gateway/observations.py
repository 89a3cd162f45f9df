"""What happens in the façade that an operator may want to know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class RequestDone(NamedTuple):
    """A request was answered. `seconds` is the time until the answer began."""

    operation: str
    method: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request ran into an error that is ours and not the client's."""

    operation: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class SignInFailed:
    """Somebody asked with credentials that the server does not know; `user` is who he says."""

    address: str
    user: str


Observation = RequestDone | RequestFailed | SignInFailed
Observe = Callable[[Observation], None]
