"""What `trace` of the configuration asks for: the operations of clients in the log."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLog:
    """Where the operations of clients are logged, and how much of their messages.

    Attributes:
        write: takes a line.
        max_payload: how many bytes of a message are shown; 0: all of them.
        headers_only: show the headers of messages and not their payloads.
    """

    write: Callable[[str], None]
    max_payload: int = 0
    headers_only: bool = False
