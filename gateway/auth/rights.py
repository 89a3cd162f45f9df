"""Protocol for reading the NATS permissions of a connection, which `core.auth.grant` decides."""

from collections.abc import Callable
from typing import Protocol

from core.client import Client

MayRead = Callable[[bytes], bool]
"""A function that returns True if a message with this subject may be shown to the principal."""


class Rights(Protocol):
    """The current NATS permissions of one connection, as the NATS server applies them."""

    @property
    def is_connected(self) -> bool:
        """True while the connection exists; without a connection nothing is permitted."""
        ...

    @property
    def permissions(self) -> object:
        """The permissions as a value that can be compared; None if there are no restrictions."""
        ...

    def may_read(self, subject: bytes) -> bool:
        """Return True if the principal may subscribe to every subject that this filter matches."""
        ...

    def reader(self, subject: bytes) -> MayRead | None:
        """Return a function that checks the subject of each message of a permitted filter.

        None: every message of the filter may be shown.
        """
        ...


RightsOf = Callable[[Client], Rights]
