"""Waiting requests of a consumer with a priority policy (ADR-42).

*overflow*: a request is served while enough messages are pending, or enough acknowledgements
outstanding. *pinned_client*: one client gets everything until it is silent for the timeout or is
unpinned; the first request that is served gets the pin, which its messages carry. *prioritized*:
the lowest number is served first, requests of the same number in turn.

A consumer may name several groups, but there is one pin and one line for all of them.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from core.consumer.events import Event, Pinned, Unpinned
from core.consumer.pull import (
    BATCH_COMPLETED,
    REQUEST_TIMEOUT,
    WRONG_PIN,
    PullRequest,
    Waiting,
    status_left,
)
from core.model.consumer import ConsumerConfig, PriorityPolicy

_PRIORITY = attrgetter("priority")


class GroupWaiting(Waiting):
    """The line of waiting requests of one consumer with priority groups.

    Args:
        config: Complete configuration.
        demand: Returns how many messages are pending, and how many acknowledgements.
        events: Where pinning and unpinning are noted.
        new_pin: Makes unique pins.
    """

    __slots__ = (
        "_demand",
        "_events",
        "_group",
        "_new_pin",
        "_pinned_group",
        "_timeout",
        "pin",
        "pin_ends",
        "pinned_at",
        "policy",
    )

    def __init__(
        self,
        config: ConsumerConfig,
        demand: Callable[[], tuple[int, int]],
        events: list[Event],
        new_pin: Callable[[], str],
    ) -> None:
        super().__init__()
        self._demand = demand
        self._events = events
        self._new_pin = new_pin
        self.policy = config.priority_policy
        self.pin = ""
        self._pinned_group = ""
        self.pinned_at = 0
        self.pin_ends = 0
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Take a configuration with the same policy."""
        self._group = config.priority_groups[0]
        self._timeout = config.priority_timeout

    # the pin

    def admits(self, request: PullRequest, now: int) -> bool:
        """Whether a request may wait: not with another pin than the one that is given away."""
        if not self.pin or not request.pin:
            return True
        if request.pin != self.pin:
            return False
        self.pin_ends = now + self._timeout
        return True

    def unpin(self, group: str, reason: str) -> None:
        """Take the pin away, if there is one; as on the reference server that is told anyway."""
        self.pin, self.pinned_at, self.pin_ends = "", 0, 0
        self._events.append(Unpinned(group, reason))

    def _give_pin(self, request: PullRequest, now: int) -> None:
        self.pin = request.pin = self._new_pin()
        self.pinned_at = now
        self.pin_ends = now + self._timeout
        self._pinned_group = request.group or self._group
        self._events.append(Pinned(self._pinned_group, self.pin))

    # who is served

    def add(self, request: PullRequest) -> None:
        """Put a request into the line: at the end, or behind those of its priority."""
        super().add(request)
        if self.policy is PriorityPolicy.PRIORITIZED:
            self.queue.pop()
            self._again(request)

    def _again(self, request: PullRequest) -> None:
        queue = self.queue
        if self.policy is PriorityPolicy.PRIORITIZED:
            queue.insert(bisect_right(queue, request.priority, key=_PRIORITY), request)
        else:
            queue.append(request)

    def can_serve(self) -> bool:
        """Whether a request is there that gets the next message, or its end, now."""
        return self._next(0) is not None

    def pass_over(self) -> None:
        """Nobody can be served: whoever does not wait for that is told so."""
        self.end_of_stream()

    def _next(self, taken: int) -> int | None:
        """The place of the request that is next when `taken` messages are given away."""
        pending, open_acks = 0, 0
        if self.policy is PriorityPolicy.OVERFLOW:
            pending, open_acks = self._demand()
            pending, open_acks = pending - taken, open_acks + taken
        for place, request in enumerate(self.queue):
            if request.parked:
                continue
            if self.policy is PriorityPolicy.OVERFLOW:
                if not request.wants(pending, open_acks):
                    continue
            elif self.policy is PriorityPolicy.PINNED_CLIENT and self.pin and not request.pin:
                continue
            return place
        return None

    def take(
        self, limit: int, now: int, size_of: Callable[[int], int] | None = None
    ) -> list[PullRequest]:
        """Decide who gets the next messages; see `Waiting.take`."""
        owners: list[PullRequest] = []
        queue = self.queue
        while len(owners) < limit and not self.outbox:
            place = self._next(len(owners))
            if place is None:
                break
            request = queue[place]
            del queue[place]
            if request.expires and request.expires <= now:
                self.outbox.append((request.reply, status_left(REQUEST_TIMEOUT, request)))
                continue
            if self._is_wrong(request):
                self.outbox.append((request.reply, status_left(WRONG_PIN, request)))
                continue
            if request.max_bytes and size_of and not self._fits(request, size_of(len(owners))):
                continue
            if self.policy is PriorityPolicy.PINNED_CLIENT and not self.pin:
                self._give_pin(request, now)
            owners.append(request)
            self._serve(request, 1, now)
            if request.batch > 0:
                self._again(request)
            elif request.max_bytes > 0:
                self.outbox.append((request.reply, status_left(BATCH_COMPLETED, request)))
        return owners

    def _is_wrong(self, request: PullRequest) -> bool:
        """Whether a request names a pin that is not, or no longer, given away."""
        return self.policy is PriorityPolicy.PINNED_CLIENT and request.pin not in ("", self.pin)

    # time

    def deadline(self) -> int | None:
        """When `expire` should run next."""
        times = (super().deadline(), self.pin_ends or None)
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: int, cseq: int, sseq: int) -> None:
        """End requests whose time is over, and the pin of a client that was silent."""
        super().expire(now, cseq, sseq)
        if 0 < self.pin_ends <= now:
            self.unpin(self._pinned_group, "timeout")
