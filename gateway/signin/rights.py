"""What the core says that an identity may do: asked before the server acts on its behalf."""

from collections.abc import Callable
from typing import Protocol

from core.client import Client

MayRead = Callable[[bytes], bool]
"""Whether a message of this subject may be shown."""


class Rights(Protocol):
    """The permissions of one connection, as the core applies them now."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to have permissions; without one nothing is permitted."""
        ...

    @property
    def permissions(self) -> object:
        """The permissions as a value, to be compared; None: no restrictions."""
        ...

    def may_read(self, subject: bytes) -> bool:
        """Whether the core would let the identity subscribe to all that a filter matches."""
        ...

    def reader(self, subject: bytes) -> MayRead | None:
        """What judges each message of a permitted filter; None: all of them may be read."""
        ...


RightsOf = Callable[[Client], Rights]
