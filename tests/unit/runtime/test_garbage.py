"""Full garbage collections: how they are kept apart."""

import gc
from collections.abc import Iterator

import pytest

from core.runtime.garbage import FullCollections
from tests.support.sessions import ManualClock

_SECOND = 1_000_000_000


class SlowCollections(ManualClock):
    """A clock by which every look takes a tenth of a second."""

    def monotonic(self) -> int:
        self.time += _SECOND // 10
        return self.time


@pytest.fixture
def clock() -> Iterator[SlowCollections]:
    """What a process that keeps them apart reads."""
    made = SlowCollections()
    collections = FullCollections(made)
    collections.start()
    yield made
    collections.stop()


def _rests() -> bool:
    return gc.get_threshold()[2] > 100


def test_a_full_collection_is_followed_by_a_rest_of_200_times_its_length(
    clock: SlowCollections,
) -> None:
    usual = gc.get_threshold()

    gc.collect()  # it takes a tenth of a second: 20 s of rest

    assert _rests()
    gc.collect(1)
    assert _rests()
    clock.time += 19 * _SECOND
    gc.collect(0)
    assert _rests()
    clock.time += _SECOND
    gc.collect(0)
    assert gc.get_threshold() == usual


def test_what_is_stopped_leaves_collections_to_python() -> None:
    usual = gc.get_threshold()
    collections = FullCollections(SlowCollections())
    collections.stop()  # before it began
    collections.start()
    gc.collect()
    assert _rests()

    collections.stop()

    assert gc.get_threshold() == usual
