"""The offline checker of a recorded history for all guarantees of jetgate (see README.md).

Each kind of violation is one word, such as `lost`. `tests.histories.controls` lists the kinds that
a run without a certain guard must show.
"""

from collections.abc import Iterator

from tests.histories import consumer_checks, copy_checks, limit_checks, log_checks, reader_checks
from tests.histories.history import Event, Rules
from tests.histories.view import View, Violation

__all__ = ["Violation", "check"]


def ends(view: View) -> Iterator[Violation]:
    """Yield a violation for work that did not end after the faults, and for a crashed node."""
    for event in view.of("end"):
        yield Violation(event.how, event.text)


CHECKS = (
    ends,
    *log_checks.CHECKS,
    *reader_checks.CHECKS,
    *consumer_checks.CHECKS,
    *copy_checks.CHECKS,
    *limit_checks.CHECKS,
)


def check(events: list[Event], rules: Rules) -> list[Violation]:
    """Return every violation of a history; empty when there is none.

    Args:
        events: The events, in order of time.
        rules: The guarantees of the run's streams, consumers and readers.
    """
    view = View(events, rules)
    return [violation for each in CHECKS for violation in each(view)]
