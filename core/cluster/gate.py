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


class Gate:
    """The publishes of one node.

    Args:
        patience: how long they are held; None: until there is a leader.
        now: the present.
    """

    def __init__(self, patience: int | None, now: int) -> None:
        self._patience = patience
        self._since: int | None = now

    @property
    def is_open(self) -> bool:
        """Whether a leader is there."""
        return self._since is None

    @property
    def until(self) -> int | None:
        """When they are held no longer, leader or not; None: that is not foreseen."""
        if self._since is None or self._patience is None:
            return None
        return self._since + self._patience

    def change(self, has_leader: bool, now: int) -> bool:
        """Hear whether a leader is there; whether that is news."""
        if has_leader == self.is_open:
            return False
        self._since = None if has_leader else now
        return True

    def stage(self, now: int, *, can_refuse: bool) -> Stage:
        """Return what happens to publishes now."""
        if self.is_open:
            return Stage.OPEN
        until = self.until
        if until is None or now < until or not can_refuse:
            return Stage.HELD
        return Stage.REFUSING
