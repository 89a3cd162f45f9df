"""Whether the publishes of clients go on: while no leader is known they wait, but not for ever.

    held --- a leader is there ---> open --- it is gone ---> held
      |  patience is over, and it is known what to refuse      ^
      +---> refusing --- a leader is there ---> open           |

No I/O. Times are monotonic nanoseconds.
"""

from enum import Enum, auto


class Stage(Enum):
    """What happens to publishes."""

    HELD = auto()
    OPEN = auto()
    REFUSING = auto()


class Stages:
    """The publishes of one node; they are held at first.

    Attributes:
        is_open: whether a leader is there.
        until: when they are held no longer, leader or not; None: that is not foreseen.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.until: int | None = None

    def found(self) -> bool:
        """A leader is there; whether that is news."""
        is_news, self.is_open, self.until = not self.is_open, True, None
        return is_news

    def lost(self, until: int | None) -> bool:
        """No leader is there, and publishes are held until some time; whether that is news."""
        if not self.is_open:
            return False
        self.is_open, self.until = False, until
        return True

    def wait(self, until: int | None) -> None:
        """One more leader is gone: publishes are held until then again, if not for longer."""
        if until is not None and self.until is not None:
            self.until = max(self.until, until)

    def expect(self, until: int) -> None:
        """Hold until some time for a first leader, if there is none yet."""
        if not self.is_open and self.until is None:
            self.until = until

    def stage(self, now: int, *, can_refuse: bool) -> Stage:
        """Return what happens to publishes now."""
        if self.is_open:
            return Stage.OPEN
        if self.until is None or now < self.until or not can_refuse:
            return Stage.HELD
        return Stage.REFUSING
