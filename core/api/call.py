"""What a handler gets: the request, and the server it is asked of."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, ParamSpec, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from core.jetstream.registry import Registry
from core.model.account import AccountLimits, ServerLimits
from core.runtime.clock import Clock

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
P = ParamSpec("P")

LARGE_BODY = 32 * 1024
LARGE_LIST = 500


class Body(Enum):
    """What a request's body may be, and what a wrong one is answered with."""

    IGNORED = auto()
    JSON = auto()
    """Decoded, whatever it is; empty = all defaults."""
    OPTIONAL = auto()
    """Decoded when it begins like an object or an array, else as if it were not there."""
    EMPTY = auto()
    """Nothing or an empty object, else JSNotEmptyRequest."""
    LENIENT = auto()
    """Read by the older of the reference's JSON readers, which ignores unknown members."""
    NEEDED = auto()
    """Something, else JSBadRequest; decoded."""


class Nothing(msgspec.Struct, frozen=True):
    """The request of a route without one."""


@dataclass(slots=True)
class Counters:
    """API requests since start: answered in all, and those answered with an error."""

    total: int = 0
    errors: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    """What handlers work on."""

    registry: Registry
    clock: Clock
    limits: AccountLimits = field(default_factory=AccountLimits)
    counters: Counters = field(default_factory=Counters)
    domain: str = ""
    strict: bool = True
    """Whether an unknown member of a request is a mistake."""
    own: Callable[[], ServerLimits] = ServerLimits
    """The limits of this server, which INFO does not tell; a reload changes them."""

    @property
    def held_to(self) -> ServerLimits:
        """What configurations are held to: in all the lower of the account's and the server's."""
        account, server = self.limits, self.own()
        lower = {}
        for name in ("max_memory", "max_storage", "max_ack_pending"):
            limits = getattr(account, name), getattr(server, name)
            lower[name] = min((limit for limit in limits if limit > 0), default=-1)
        return replace(server, **(asdict(account) | lower))


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One request. `names` are the tokens of its subject that the route leaves open."""

    names: tuple[str, ...]
    request: R
    headers: bytes = b""


async def apart(
    is_large: bool, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a pure function; when its input is large, in a thread, so that others are served."""
    if is_large:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
