"""The interface of the list of remotes, which all nodes share, and of their connection states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RemoteRow:
    """A remote in the list; `creds` is the path of a credentials file on every node."""

    name: str
    url: str
    creds: str


@dataclass(frozen=True, slots=True)
class RemoteState:
    """The state of the connection to a remote.

    Attributes:
        name: Name of the remote.
        connected: True while the connection is up.
        server: The server at the other end.
        rtt_ns: Round trip in nanoseconds; 0 if unknown.
        error: Text of the last error; empty if there is none.
        relays: Number of local subjects that consumers there deliver to.
    """

    name: str
    connected: bool
    server: str = ""
    rtt_ns: int = 0
    error: str = ""
    relays: int = 0


class RemoteStore(Protocol):
    """The list of remotes. Each method raises Unavailable when storage is unreachable."""

    async def load(self) -> list[RemoteRow]:
        """Return the remotes, sorted by name."""
        ...

    async def record(self, states: Sequence[RemoteState]) -> None:
        """Store the states of connections, for `jetgate remote list`."""
        ...
