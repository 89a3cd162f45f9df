"""The queue of ownership commands that wait for storage, in the order of their events. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.node.ownership.state import Command, LoadFailed, State, Step
from core.units import LeaseGroup

if TYPE_CHECKING:
    from core.node.ownership.dispatch import Dispatch


class PendingSteps:
    """A queue of the steps that acquire, load, drain and release lease groups.

    Args:
        dispatch: The ownership whose steps are queued.
    """

    def __init__(self, dispatch: Dispatch[Any]) -> None:
        self._dispatch, self._ownership = dispatch, dispatch.ownership
        self._steps: deque[Step] = deque()
        waiting = (Command.ACQUIRE, Command.LOAD, Command.DRAIN, Command.RELEASE)
        self._unsubscribe = dispatch.subscribe(dict.fromkeys(waiting, self._steps.append))

    def __bool__(self) -> bool:
        return bool(self._steps)

    def peek(self) -> Step:
        """Return the oldest step without removing it. Raises IndexError if the queue is empty."""
        return self._steps[0]

    def next(self) -> Step:
        """Remove the oldest step and return it. Raises IndexError if the queue is empty.

        Groups whose state has changed since, so that the step no longer applies, are left out. The
        step may then have no groups.
        """
        step = self._steps.popleft()
        if step.command is Command.LOAD:
            return replace(step, groups=step.groups & self._ownership.within(State.LOADING))
        if step.command in (Command.ACQUIRE, Command.RELEASE):
            return replace(step, groups=step.groups - self._ownership.leases.keys())
        return step

    def fail(self) -> None:
        """Clean up the queue after a step has failed, because of storage or of a damaged row.

        Drops the steps that acquire or load; the placement decides about these groups again. Groups
        that wait to be loaded are released. Steps that drain or release stay queued.
        """
        loads = [step.groups for step in self._steps if step.command is Command.LOAD]
        dropped = (Command.ACQUIRE, Command.LOAD)
        for step in [each for each in self._steps if each.command in dropped]:
            self._steps.remove(step)
        groups = frozenset[LeaseGroup]().union(*loads) & self._ownership.within(State.LOADING)
        self._dispatch.post(LoadFailed(groups))

    def close(self) -> None:
        """Drop all steps, and queue no more."""
        self._unsubscribe()
        self._steps.clear()
