"""The log of client operations, which the option `trace` of the configuration enables."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLog:
    """The target and the extent of the log of client operations.

    Attributes:
        write: Called with each line.
        max_payload: Number of bytes of a message to log; 0: all.
        headers_only: Log the headers of messages and not their payloads.
    """

    write: Callable[[str], None]
    max_payload: int = 0
    headers_only: bool = False
