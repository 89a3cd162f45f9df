"""What an account, and whoever has an account, may know of the server and ask of it."""

from typing import Protocol

from core.pubsub.limits import Limits
from core.pubsub.route import Link
from core.runtime.clock import Clock
from core.runtime.turn import Turn


class Waiter(Protocol):
    """A connection that has stopped reading."""

    def resume(self) -> None:
        """Read again."""
        ...


class HubView(Protocol):
    """The part of `core.pubsub.server.Hub` that an account shows.

    `overloaded` and `crowded` are about producers that are faster than what consumes them: while
    the server is `overloaded`, connections that bring much data stop reading and `wait`; one that
    finds `crowded` set clears it and stops reading for a moment; one that sends into a link that is
    `congested` waits for it. `stripped_bytes` counts the
    header blocks of messages that went without them to clients that cannot read them, `reports`
    the traces of messages that were sent. `author_doors` are the types of connections by which
    authors are asked what the headers of their messages want, `author_key` is the secret of this
    process that tells them apart.
    """

    turn: Turn
    clock: Clock
    limits: Limits
    server_id: str
    server_name: str
    cluster: str
    host: str
    domain: str
    tags: tuple[str, ...]
    jetstream: bool
    overloaded: bool
    crowded: bool
    congested: list[Link]
    author_doors: frozenset[str]
    author_key: bytes
    stripped_bytes: int
    reports: int

    def choose_publishers(self, account: str) -> None:
        """Let connected clients of an account publish by its mappings, which have changed."""
        ...

    def wait(self, waiter: Waiter) -> None:
        """Have `resume` called as soon as the server is no longer overloaded."""
        ...
