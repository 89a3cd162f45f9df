"""Judges a history, offline: every promise that can be seen from outside (README.md lists them).

Each kind of violation is one word, so that controls can say which one they expect.
"""

from collections.abc import Iterator

from tests.ledger import consumer_checks, copy_checks, limit_checks, log_checks, reader_checks
from tests.ledger.history import Event, Rules
from tests.ledger.view import View, Violation

__all__ = ["Violation", "check"]


def ends(view: View) -> Iterator[Violation]:
    """Once the faults are over everything comes to its end, and no node ended by itself."""
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
    """Every way in which a history breaks a promise; empty when it is sound.

    Args:
        events: in the order of time.
        rules: what was promised.
    """
    view = View(events, rules)
    return [violation for each in CHECKS for violation in each(view)]
