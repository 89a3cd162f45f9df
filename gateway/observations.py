"""What happens in the façade that an operator may want to know."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestDone:
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


Observation = RequestDone | RequestFailed
Observe = Callable[[Observation], None]
