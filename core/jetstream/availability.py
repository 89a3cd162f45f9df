"""Conversion of storage failures into retries or into API errors for clients."""

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
    """A stream log that can be closed while `retry_until_available` works on it.

    Attributes:
        closed: True once the stream is deleted or led by another node.
    """

    closed: bool


async def retry_until_available(work: Callable[[], Awaitable[None]], of: Closing) -> None:
    """Apply the effects of a committed change; retry every 100 ms while storage is unavailable.

    Storage errors are not raised, since the caller would report the committed change as failed.
    Returns once `work` has succeeded, or `of` is closed.
    """
    while not of.closed:
        try:
            return await work()
        except StorageError:
            await asyncio.sleep(retry.COMMIT_S)


async def unavailable_as_api_error(work: Awaitable[T]) -> T:
    """Await work on storage and return its result.

    Raises ApiError JSClusterNotAvail if the work raises a StorageError.
    """
    try:
        return await work
    except StorageError:
        raise api_error("JSClusterNotAvail") from None
