"""The `trace` option of the configuration: logging of client operations."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLog:
    """The target and extent of logged client operations.

    Attributes:
        write: Writes one line.
        max_payload: Bytes of a message to log; 0: all.
        headers_only: Log the headers of messages and not their payloads.
    """

    write: Callable[[str], None]
    max_payload: int = 0
    headers_only: bool = False
