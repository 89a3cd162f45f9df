"""Lease groups of tests, written as plain numbers."""

from collections.abc import Mapping
from typing import TypeVar

from core.units import LeaseGroup

T = TypeVar("T")


def lease_groups(*numbers: int) -> frozenset[LeaseGroup]:
    """Return the lease groups with these numbers."""
    return frozenset(map(LeaseGroup, numbers))


def by_group(values: Mapping[int, T]) -> dict[LeaseGroup, T]:
    """Return values by lease group, from values by its number."""
    return {LeaseGroup(group): value for group, value in values.items()}
