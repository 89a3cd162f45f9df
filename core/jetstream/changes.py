"""Changes of a log other than publishes: they take turns with them, and are plans as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from core.stream.plan import StreamPlan

Change = Callable[[int], Awaitable[StreamPlan]]
"""Plans a change when its turn comes, given the wall-clock time in nanoseconds.

Raises ApiError to refuse it, Unavailable to be asked again when storage is back.
"""

Submit = Callable[[Change], "asyncio.Future[StreamPlan]"]
"""Gives a change its turn; the future has the committed plan, or ApiError."""

WithoutInterest = Callable[[Iterable[bytes]], frozenset[bytes]]
"""Returns the subjects that are not stored: retention is by interest, and no consumer has it."""

MapSubjects = Callable[[list[bytes]], list[bytes]]
"""Returns the subjects under which messages published on some subjects are stored."""
