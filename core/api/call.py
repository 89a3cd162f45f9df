"""The arguments of API handlers: the request (`Call`) and the server (`ApiServer`)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, ParamSpec, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from core.api.node_queries import NodeQueries
from core.jetstream.registry import Registry
from core.jetstream.transactions.transactions import Transactions
from core.jetstream.trust_gate import TrustGate
from core.model.account import AccountLimits, ServerLimits
from core.runtime.clock import Clock

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
P = ParamSpec("P")

LARGE_BODY = 32 * 1024
LARGE_LIST = 500
"""Bodies of more bytes than LARGE_BODY and lists of more subjects than LARGE_LIST use a thread."""


class Body(Enum):
    """Ways to decode the body of an API request, with the error for a wrong body."""

    IGNORED = auto()
    """The body is not decoded."""
    JSON = auto()
    """The body is decoded; an empty one means that all members have their defaults."""
    OPTIONAL = auto()
    """Decoded if it begins with `{` or `[`, else treated as empty."""
    EMPTY = auto()
    """The body must be empty or an empty object, else the error is JSNotEmptyRequest."""
    LENIENT = auto()
    """The body is decoded by the rules of nats-server's older JSON decoder (`decode_older`)."""
    NEEDED = auto()
    """The body is decoded and must not be empty, else the error is JSBadRequest."""


class Nothing(msgspec.Struct, frozen=True):
    """The request of an API subject that takes no body."""


@dataclass(slots=True)
class Counters:
    """Counts of API requests since the start of the JetStream runtime.

    Attributes:
        total: Answered requests.
        errors: Requests answered with an error.
        dropped: Requests dropped because too many were queued.
    """

    total: int = 0
    errors: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The services and limits that API handlers use.

    Attributes:
        registry: The streams that this node leads.
        clock: The clock of the database.
        transactions: The transactions of these streams.
        node_queries: Collects stream infos and usage from all nodes.
        limits: The limits of the account.
        counters: Counts of API requests.
        domain: The JetStream domain (empty: none).
        trust: Holds answers while the node's leases are unconfirmed (`core.jetstream.trust_gate`).
    """

    registry: Registry
    clock: Clock
    transactions: Transactions
    node_queries: NodeQueries
    limits: AccountLimits = field(default_factory=AccountLimits)
    counters: Counters = field(default_factory=Counters)
    domain: str = ""
    strict: bool = True
    """True if an unknown JSON member of a request is an error."""
    own: Callable[[], ServerLimits] = ServerLimits
    """Returns the server's own limits, which a reload of the configuration can change.

    Account info does not show them.
    """
    trust: TrustGate = field(default_factory=TrustGate)

    @property
    def config_limits(self) -> ServerLimits:
        """The limits that stream and consumer configurations must keep.

        For each limit the lower value of account and server; -1: no limit.
        """
        account, server = self.limits, self.own()
        lower = {}
        for name in ("max_memory", "max_storage", "max_ack_pending"):
            limits = getattr(account, name), getattr(server, name)
            lower[name] = min((limit for limit in limits if limit > 0), default=-1)
        return replace(server, **(asdict(account) | lower))


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One API request, as its handler receives it.

    Attributes:
        names: The tokens of the subject that match the wildcards of its route, such as stream name
            and consumer name.
        request: The decoded body.
        headers: The header block of the message (empty: none).
    """

    names: tuple[str, ...]
    request: R
    headers: bytes = b""


async def in_thread_if(
    is_large: bool, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of a pure function; if `is_large`, call it in a thread.

    The event loop is then free for other work.
    """
    if is_large:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)


def page_offset(wanted: int, total: int) -> int:
    """Return the requested offset of a page, limited to the range 0 to `total`."""
    return min(max(wanted, 0), total)
