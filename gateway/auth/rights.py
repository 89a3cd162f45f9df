"""The rights of a principal: its NATS permissions, which `core.auth.grant` decides."""

from collections.abc import Callable
from typing import Protocol

from core.client import Client

MayRead = Callable[[bytes], bool]
"""A function that returns whether a message with this subject may be shown."""


class Rights(Protocol):
    """The current permissions of one connection, as the core applies them."""

    @property
    def is_connected(self) -> bool:
        """True while the connection exists; without it nothing is permitted."""
        ...

    @property
    def permissions(self) -> object:
        """The permissions as a comparable value; None: no restrictions."""
        ...

    def may_read(self, subject: bytes) -> bool:
        """Return whether the principal may subscribe to everything that a filter matches."""
        ...

    def reader(self, subject: bytes) -> MayRead | None:
        """Return a function that checks each message of a permitted filter; None: all pass."""
        ...


RightsOf = Callable[[Client], Rights]
