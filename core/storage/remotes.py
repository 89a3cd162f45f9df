"""What is kept of remotes: the list that all nodes share, and what the leader says of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RemoteRow:
    """A remote of the list; `creds` is a path on every node, never what is in the file."""

    name: str
    url: str
    creds: str


@dataclass(frozen=True, slots=True)
class RemoteState:
    """How a connection is.

    `rtt_ns` 0: not known; `relays`: subjects that consumers there deliver to.
    """

    name: str
    connected: bool
    server: str = ""
    rtt_ns: int = 0
    error: str = ""
    relays: int = 0


class RemoteStore(Protocol):
    """The list. Every question raises Unavailable when storage cannot be reached."""

    async def load(self) -> list[RemoteRow]:
        """Return the list, by name."""
        ...

    async def tell(self, states: Sequence[RemoteState]) -> None:
        """Note how connections are, for `jetgate remote list`."""
        ...
