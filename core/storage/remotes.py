"""The interface of the list of remotes: the NATS servers that every node connects to.

It also stores the state of each connection, for `jetgate remote list`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RemoteRow:
    """A remote NATS server in the list.

    Attributes:
        name: Name of the remote.
        url: Its address.
        creds: Path of a credentials file, which every node has; empty: none.
    """

    name: str
    url: str
    creds: str


@dataclass(frozen=True, slots=True)
class RemoteState:
    """The state of the connection to a remote NATS server.

    Attributes:
        name: Name of the remote.
        connected: True while the connection is up.
        server: The server at the other end.
        rtt_ns: Round trip in nanoseconds; 0 if unknown.
        error: Text of the last error; empty if there is none.
        relays: Number of local subjects that consumers of the remote deliver to.
    """

    name: str
    connected: bool
    server: str = ""
    rtt_ns: int = 0
    error: str = ""
    relays: int = 0


class RemoteStore(Protocol):
    """The list of remote NATS servers.

    Each method raises Unavailable if PostgreSQL does not answer.
    """

    async def load(self) -> list[RemoteRow]:
        """Return the list of remote NATS servers, sorted by name."""
        ...

    async def record(self, states: Sequence[RemoteState]) -> None:
        """Store the states of connections to remotes, for `jetgate remote list`."""
        ...
