"""The end of a Spark pipeline at one of its points, as a kill of its process."""

from collections.abc import Callable


class Killed(BaseException):
    """The run ended at a point."""


def dying(point: str, times: int = 1) -> Callable[[str], None]:
    """Return a function that raises Killed when it is called for a point for the n-th time."""
    passed = 0

    def at(here: str) -> None:
        nonlocal passed
        passed += here == point
        if passed == times:
            raise Killed(point)

    return at
