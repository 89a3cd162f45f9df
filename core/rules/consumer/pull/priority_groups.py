"""The waiting pull requests of a consumer with a priority policy (ADR-42).

- *overflow*: a request gets messages while the number of pending messages or pending acks is at
  least its threshold.
- *pinned_client*: one client gets all messages until it sends no request for `priority_timeout` or
  is unpinned. The client of the first request that gets a message is pinned; its messages contain
  the pin id.
- *prioritized*: requests with the lowest priority number get messages first, equal numbers in
  rotation.

A consumer may name several groups, but as in nats-server they share one pin and one queue.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from core.model.consumer import ConsumerConfig, PriorityPolicy
from core.rules.consumer.events import Event, Pinned, Unpinned
from core.rules.consumer.pull.requests import (
    BATCH_COMPLETED,
    REQUEST_TIMEOUT,
    WRONG_PIN,
    PullRequest,
    Waiting,
    status_left,
)
from core.units import ConsumerSeq

_PRIORITY = attrgetter("priority")


class GroupWaiting(Waiting):
    """The queue of waiting pull requests of one consumer with priority groups.

    Args:
        config: The complete configuration.
        demand: Returns (`num_pending`, `num_ack_pending`) of the consumer.
        events: The list to which events of pinning and unpinning are appended.
        new_pin: Returns a unique pin id.

    Attributes:
        pin: Id of the pinned client ("": none).
        pinned_at: Time at which it was pinned, in monotonic nanoseconds.
        pin_ends: Time at which it is unpinned unless it sends a request, in monotonic nanoseconds;
            0: no client is pinned.
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
        """Apply a new configuration that has the same priority policy."""
        self._group = config.priority_groups[0]
        self._timeout = config.priority_timeout

    # the pin

    def admits(self, request: PullRequest, now: int) -> bool:
        """Return whether a request may wait: it names no pin id, or that of the pinned client.

        A request with that id prolongs the pin. `now` is in monotonic nanoseconds.
        """
        if not self.pin or not request.pin:
            return True
        if request.pin != self.pin:
            return False
        self.pin_ends = now + self._timeout
        return True

    def unpin(self, group: str, reason: str) -> None:
        """Unpin the pinned client of the consumer, and add an event for `group` with the reason.

        As in nats-server, the event is added even if no client was pinned.
        """
        self.pin, self.pinned_at, self.pin_ends = "", 0, 0
        self._events.append(Unpinned(group, reason))

    def _assign_pin(self, request: PullRequest, now: int) -> None:
        self.pin = request.pin = self._new_pin()
        self.pinned_at = now
        self.pin_ends = now + self._timeout
        self._pinned_group = request.group or self._group
        self._events.append(Pinned(self._pinned_group, self.pin))

    # order of service

    def add(self, request: PullRequest) -> None:
        """Add a request to the end of the queue, or (policy prioritized) of its priority."""
        super().add(request)
        if self.policy is PriorityPolicy.PRIORITIZED:
            self.queue.pop()
            self._requeue(request)

    def _requeue(self, request: PullRequest) -> None:
        queue = self.queue
        if self.policy is PriorityPolicy.PRIORITIZED:
            queue.insert(bisect_right(queue, request.priority, key=_PRIORITY), request)
        else:
            queue.append(request)

    def can_serve(self) -> bool:
        """Return whether the next message would be delivered to a request, or end one."""
        return self._next(0) is not None

    def pass_over(self) -> None:
        """End the `no_wait` requests, because no request can get a message now."""
        self.end_of_stream()

    def _next(self, taken: int) -> int | None:
        """Return the index in the queue of the request that gets the next message, or None.

        `taken` is the number of messages assigned before in the same call.
        """
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

    def assign(
        self, limit: int, now: int, size_of: Callable[[int], int] | None = None
    ) -> list[PullRequest]:
        """Assign the next `limit` messages to requests; return the request of each message.

        Arguments and result are those of `Waiting.assign`; `now` is in monotonic nanoseconds.
        """
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
            if self._has_wrong_pin(request):
                self.outbox.append((request.reply, status_left(WRONG_PIN, request)))
                continue
            if request.max_bytes and size_of and not self._fits(request, size_of(len(owners))):
                continue
            if self.policy is PriorityPolicy.PINNED_CLIENT and not self.pin:
                self._assign_pin(request, now)
            owners.append(request)
            self._serve(request, 1, now)
            if request.batch > 0:
                self._requeue(request)
            elif request.max_bytes > 0:
                self.outbox.append((request.reply, status_left(BATCH_COMPLETED, request)))
        return owners

    def _has_wrong_pin(self, request: PullRequest) -> bool:
        """Return whether a request names a pin id that is not the current one."""
        return self.policy is PriorityPolicy.PINNED_CLIENT and request.pin not in ("", self.pin)

    # time

    def deadline(self) -> int | None:
        """Return the time of the next call of `expire`, in monotonic nanoseconds.

        None: no call is needed.
        """
        times = (super().deadline(), self.pin_ends or None)
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: int, cseq: ConsumerSeq, sseq: int) -> None:
        """End expired requests; unpin a client that sent no request for `priority_timeout`.

        `now` is in monotonic nanoseconds; `cseq` and `sseq` are the last delivered sequences.
        """
        super().expire(now, cseq, sseq)
        if 0 < self.pin_ends <= now:
            self.unpin(self._pinned_group, "timeout")
