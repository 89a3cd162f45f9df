"""Simulated kills of a Spark pipeline at named points of its run."""

from collections.abc import Callable


class Killed(BaseException):
    """The simulated kill; no handler of `Exception` catches it."""


def dying(point: str, times: int = 1) -> Callable[[str], None]:
    """Return a callback for the points of a run, which raises Killed at `point`.

    It raises when the run reaches that point for the `times`-th time.
    """
    passed = 0

    def at(here: str) -> None:
        nonlocal passed
        passed += here == point
        if passed == times:
            raise Killed(point)

    return at
