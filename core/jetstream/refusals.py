"""Failures of storage as clients of the API hear of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from core.errors import StorageError
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
_AGAIN_S = 0.1


class Closing(Protocol):
    """What may be over: the log of a stream that another node leads."""

    closed: bool


async def once_available(work: Callable[[], Awaitable[None]], of: Closing) -> None:
    """Do what follows upon a change that is committed: again where storage fails.

    An error would say that nothing was changed. Once `of` is closed nothing is left to do here.
    """
    while not of.closed:
        try:
            return await work()
        except StorageError:
            await asyncio.sleep(_AGAIN_S)


async def or_not_available(work: Awaitable[T]) -> T:
    """Await work on storage. Raises ApiError JSClusterNotAvail where it fails."""
    try:
        return await work
    except StorageError:
        raise api_error("JSClusterNotAvail") from None
