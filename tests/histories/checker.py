"""The offline checker of a history: every guarantee that clients can observe (see README.md).

Each kind of violation is one word, with which controls name the kinds that they expect.
"""

from collections.abc import Iterator

from tests.histories import consumer_checks, copy_checks, limit_checks, log_checks, reader_checks
from tests.histories.history import Event, Rules
from tests.histories.view import View, Violation

__all__ = ["Violation", "check"]


def ends(view: View) -> Iterator[Violation]:
    """Check that all work ended after the faults, and that no node ended by itself."""
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
        rules: The guarantees.
    """
    view = View(events, rules)
    return [violation for each in CHECKS for violation in each(view)]
