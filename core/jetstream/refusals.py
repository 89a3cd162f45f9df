"""Failures of storage as clients of the API hear of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from core.errors import StorageError
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def or_not_available(work: Awaitable[T]) -> T:
    """Await work on storage. Raises ApiError JSClusterNotAvail where it fails."""
    try:
        return await work
    except StorageError:
        raise api_error("JSClusterNotAvail") from None
