"""What leadership asks of storage: one session that holds locks, heartbeats, epochs."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class NodeRow:
    """How a node shows itself to the others: its name and the addresses it serves."""

    node: str
    nats: str = ""
    http: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock: the process id of its session, nanoseconds since it was heard of."""

    pid: int
    silence: int
    node: str = ""


class LeaseStore(Protocol):
    """The session that holds the locks. Every question raises Unavailable when it breaks."""

    @property
    def pid(self) -> int:
        """The process id of the session, or of the last one; 0 before the first."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether there is a session, as far as we know."""
        ...

    async def open(self) -> None:
        """Open a session; the locks of an earlier one are gone or will go."""
        ...

    def close(self) -> None:
        """End the session, and the locks with it, without waiting."""
        ...

    async def take(self) -> bool:
        """Take the locks of all groups; whether we got them. Nothing is kept of a part."""
        ...

    async def holder(self) -> Holder | None:
        """Who holds the locks now."""
        ...

    async def end_session(self, pid: int) -> None:
        """End the session of a holder."""
        ...

    async def bump(self, token: int, expected: int | None) -> int:
        """Give every head and consumer a new epoch and leave `token`; return the catalogue's.

        Raises:
            Fenced: the token found is not the expected one (None: any will do).
        """
        ...

    async def token(self) -> int:
        """The token that the last bump left."""
        ...

    async def beat(self, row: NodeRow) -> None:
        """Tell the others that we are there."""
        ...

    async def leave(self, row: NodeRow) -> None:
        """Let go of the locks and of our row."""
        ...
