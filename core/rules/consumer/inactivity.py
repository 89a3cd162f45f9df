"""The rule by which an unused consumer is deleted (`inactive_threshold`). No I/O.

The threshold counts from the last request or acknowledgement of a client. It does not count while a
push consumer has a subscriber. A pull consumer stays while a client waits for messages, or may
still acknowledge some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.rules.consumer.config.validation import EPHEMERAL_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.rules.consumer.machine import ConsumerMachine

_GRACE = 100_000_000
"""Addition to the threshold, in nanoseconds, for a client that returns just in time.

A push consumer with a threshold of its own has no such grace, as in nats-server.
"""


def due_at(machine: ConsumerMachine, used: int, threshold: int) -> int | None:
    """Return when the consumer is inactive, in monotonic nanoseconds; None: never.

    `used` is the time of a client's last request or acknowledgement, in monotonic nanoseconds, and
    `threshold` the `inactive_threshold` in nanoseconds.
    """
    push = machine.push
    if threshold <= 0 or (push is not None and push.active):
        return None
    is_exact = push is not None and threshold != EPHEMERAL_THRESHOLD
    return used + threshold + (0 if is_exact else _GRACE)


def restart_at(
    machine: ConsumerMachine,
    used: int,
    threshold: int,
    now: int,
    has_interest: Callable[[bytes], bool],
) -> int | None:
    """Return the time from which a new `inactive_threshold` of an unused consumer counts.

    None if no client waits for messages or may still acknowledge some, so that the consumer is
    inactive. Times are monotonic nanoseconds.

    Args:
        machine: The state of the consumer.
        used: Time of a client's last request or acknowledgement.
        threshold: The `inactive_threshold` in nanoseconds.
        now: The present time.
        has_interest: Returns whether a subject has a subscriber.
    """
    if any(has_interest(request.reply) for request in machine.waiting.queue):
        return now
    if (
        machine.push is None
        and len(machine.pending)
        and now < used + threshold + max(machine.waits)
    ):
        return now if machine.waiting.queue else used + max(threshold, _GRACE)
    return None
