"""The stages of a node's publishes: held, then passed or refused.

    held --- a leader is known ---> open --- it is gone ---> held
      |  the time limit is over, and refusing is possible      ^
      +---> refusing --- a leader is known ---> open           |

No I/O. Times are monotonic nanoseconds.
"""

from enum import Enum, auto


class Stage(Enum):
    """The treatment of publishes."""

    HELD = auto()
    OPEN = auto()
    REFUSING = auto()


class Stages:
    """The publishes of one node; they are held at first.

    Attributes:
        is_open: True while a leader is known.
        until: Time at which holding ends even without a leader; None: no limit yet.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.until: int | None = None

    def found(self) -> bool:
        """Record that a leader is known; return whether there was none before."""
        is_news, self.is_open, self.until = not self.is_open, True, None
        return is_news

    def lost(self, until: int | None) -> bool:
        """Record that no leader is known; hold until a time. Return whether one was known."""
        if not self.is_open:
            return False
        self.is_open, self.until = False, until
        return True

    def wait(self, until: int | None) -> None:
        """Extend the hold after another leader is gone: at least until a time."""
        if until is not None and self.until is not None:
            self.until = max(self.until, until)

    def expect(self, until: int) -> None:
        """Set the limit for a first leader, unless a leader is known or a limit is set."""
        if not self.is_open and self.until is None:
            self.until = until

    def stage(self, now: int, *, can_refuse: bool) -> Stage:
        """Return the treatment of publishes at a time."""
        if self.is_open:
            return Stage.OPEN
        if self.until is None or now < self.until or not can_refuse:
            return Stage.HELD
        return Stage.REFUSING
