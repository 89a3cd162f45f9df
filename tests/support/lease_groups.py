"""Conversions from plain numbers to `LeaseGroup` for tests."""

from collections.abc import Mapping
from typing import TypeVar

from core.units import LeaseGroup

T = TypeVar("T")


def lease_groups(*numbers: int) -> frozenset[LeaseGroup]:
    """Return the lease groups with these numbers."""
    return frozenset(map(LeaseGroup, numbers))


def by_group(values: Mapping[int, T]) -> dict[LeaseGroup, T]:
    """Return a mapping with lease groups as keys, from one with their numbers as keys."""
    return {LeaseGroup(group): value for group, value in values.items()}
