"""Conversion of storage failures into API errors or retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from core import retry
from core.errors import StorageError
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class Closing(Protocol):
    """The interface of a log whose stream may be lost to another node."""

    closed: bool


async def retry_until_available(work: Callable[[], Awaitable[None]], of: Closing) -> None:
    """Apply the effects of a committed change; retry every 100 ms while storage is unavailable.

    Raising the error would mean to the caller that the change failed. Stops once `of` is closed.
    """
    while not of.closed:
        try:
            return await work()
        except StorageError:
            await asyncio.sleep(retry.COMMIT_S)


async def unavailable_as_api_error(work: Awaitable[T]) -> T:
    """Await work on storage. Raises ApiError JSClusterNotAvail for a StorageError."""
    try:
        return await work
    except StorageError:
        raise api_error("JSClusterNotAvail") from None
