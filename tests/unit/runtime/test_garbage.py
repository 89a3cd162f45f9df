"""Full garbage collections: when one looks at everything."""

# Subject: costs

import gc
import weakref
from collections.abc import Iterator

import pytest

from core.runtime.garbage import FullCollections
from core.units import Nanos
from tests.support.sessions import ManualClock

_SECOND = 1_000_000_000


class SlowCollections(ManualClock):
    """A clock by which a collection takes a hundredth of a second."""

    def monotonic(self) -> Nanos:
        self.time += _SECOND // 100
        return Nanos(self.time)


class Knot:
    """What refers to itself."""

    def __init__(self) -> None:
        self.end: Knot | None = self


@pytest.fixture
def clock() -> Iterator[SlowCollections]:
    """What a process with short full collections reads; Python begins none by itself."""
    made = SlowCollections()
    collections = FullCollections(made)
    gc.disable()
    collections.start()
    yield made
    collections.stop()
    gc.enable()
    gc.unfreeze()


def _frozen_knot() -> "weakref.ref[Knot]":
    """A circle that was in use during a full collection and no longer is."""
    knot = Knot()
    gc.collect()
    return weakref.ref(knot)


def test_a_full_collection_looks_at_what_came_since_the_last_one(clock: SlowCollections) -> None:
    old = _frozen_knot()
    young = weakref.ref(Knot())
    gc.collect()

    assert young() is None
    assert old() is not None


def test_unreferenced_objects_are_freed_at_once(clock: SlowCollections) -> None:
    knot = Knot()
    gc.collect()
    told = weakref.ref(knot)

    knot.end = None
    del knot

    assert told() is None


def test_everything_is_looked_at_after_a_thousand_times_as_long_as_that_took(
    clock: SlowCollections,
) -> None:
    knot = _frozen_knot()

    clock.time += 9 * _SECOND
    gc.collect()
    assert knot() is not None
    clock.time += _SECOND
    gc.collect()
    assert knot() is None

    again = _frozen_knot()
    gc.collect()
    assert again() is not None


def test_nothing_is_looked_at_again_while_hardly_more_came_than_went(
    clock: SlowCollections,
) -> None:
    knot = _frozen_knot()

    clock.time += 1000 * _SECOND
    gc.collect()
    assert knot() is not None
    gc.collect()
    assert knot() is None


def test_everything_is_looked_at_when_as_much_may_have_come_as_was_in_use(
    clock: SlowCollections,
) -> None:
    """What came and went in circles is at most that much."""
    knot = _frozen_knot()
    in_use = gc.get_freeze_count()
    usual = gc.get_threshold()
    began = clock.time
    try:
        gc.set_threshold(100_000, 1, 1)  # 400,000 objects between two full collections
        for _ in range((in_use + 500_000) // 400_000 - 1):
            gc.collect()
            assert knot() is not None
        gc.collect()
        gc.collect()
    finally:
        gc.set_threshold(*usual)

    assert clock.time - began < 10 * _SECOND
    assert knot() is None


def test_a_stopped_collector_leaves_collections_to_python() -> None:
    collections = FullCollections(SlowCollections())
    collections.stop()  # before it began
    collections.start()
    collections.stop()
    gc.unfreeze()
    knot = Knot()
    gc.collect()
    told = weakref.ref(knot)
    del knot
    gc.collect()

    assert told() is None
    assert not gc.get_freeze_count()
