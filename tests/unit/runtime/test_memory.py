"""Memory that is given back: when, and that it can be."""

# Subject: costs

import pytest

from core.runtime.memory import MemoryTrimmer, trim_memory


@pytest.mark.parametrize(
    ("counts", "calls"),
    [
        ([0, 0], 0),
        ([255, 0], 0),
        ([256, 129], 0),
        ([256, 128], 1),
        ([256, 200, 128, 0], 1),
        ([1000, 500, 500, 250, 125, 0], 2),
        ([1000, 0, 1000, 0], 2),
        ([1000, 600, 1000, 501], 0),
    ],
)
def test_memory_is_given_back_when_half_of_a_crowd_has_gone(counts: list[int], calls: int) -> None:
    called: list[int] = []
    trimmer = MemoryTrimmer(lambda: called.append(1))

    for count in counts:
        trimmer.record(count)

    assert len(called) == calls


def test_memory_is_given_back_where_the_system_takes_it() -> None:
    trim_memory()
