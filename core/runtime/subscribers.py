"""The callbacks of an event, called in the order in which they were added."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """The callbacks of one event. Calling the object calls each of them with the same arguments."""

    def __init__(self) -> None:
        self._calls: list[Callable[P, None]] = []

    def subscribe(self, call: Callable[P, None]) -> Callable[[], None]:
        """Add a callback.

        Return a function that removes it; calling that function again has no effect.
        """
        self._calls.append(call)

        def unsubscribe() -> None:
            if call in self._calls:
                self._calls.remove(call)

        return unsubscribe

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for call in tuple(self._calls):
            call(*args, **kwargs)
