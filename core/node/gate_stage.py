"""The state machine of the publish gate (`core.node.publish_gate`): hold, pass or refuse publishes.

    held --- all streams have a leader ---> open --- a leader is lost ---> held
      |  the time limit is over, and refusing is possible                   ^
      +---> refusing --- all streams have a leader ---> open                |

A leader is the node that serves a stream. No I/O. Times are monotonic nanoseconds.
"""

from enum import Enum, auto


class Stage(Enum):
    """The treatment of publishes by the publish gate: held, passed on (OPEN), or refused."""

    HELD = auto()
    OPEN = auto()
    REFUSING = auto()


class Stages:
    """The state of one node's publish gate; publishes are held at first.

    Attributes:
        is_open: True while every stream has a leader.
        until: Monotonic time in nanoseconds at which holding ends even without a leader; None: no
            limit yet.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.until: int | None = None

    def found(self) -> bool:
        """Record that every stream has a leader.

        Returns True if this is new: until now a stream had no leader.
        """
        is_news, self.is_open, self.until = not self.is_open, True, None
        return is_news

    def lost(self, until: int | None) -> bool:
        """Record that a stream has no leader, and begin to hold publishes.

        `until` is the end of the hold in monotonic nanoseconds; None: no end. Returns False, and
        changes nothing, if publishes are held already.
        """
        if not self.is_open:
            return False
        self.is_open, self.until = False, until
        return True

    def wait(self, until: int | None) -> None:
        """Extend the present hold to `until`, after one more leader is lost.

        `until` is in monotonic nanoseconds. Does nothing if it is None or the hold has no end.
        """
        if until is not None and self.until is not None:
            self.until = max(self.until, until)

    def expect(self, until: int) -> None:
        """Set the end of the first hold, in monotonic nanoseconds.

        Does nothing if every stream has a leader or a limit is set already.
        """
        if not self.is_open and self.until is None:
            self.until = until

    def stage(self, now: int, *, can_refuse: bool) -> Stage:
        """Return the treatment of publishes at the monotonic time `now`, in nanoseconds.

        `can_refuse` is False while publishes cannot be refused, for example because the streams are
        not known yet: they are then held beyond the limit.
        """
        if self.is_open:
            return Stage.OPEN
        if self.until is None or now < self.until or not can_refuse:
            return Stage.HELD
        return Stage.REFUSING
