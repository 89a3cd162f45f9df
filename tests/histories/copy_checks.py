"""Checks of mirrors, which equal their origin, and of streams with sources.

Each function yields a `Violation` for each case in which the history contradicts the guarantee.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.histories.history import Event, StreamRule
from tests.histories.view import View, Violation


def mirrors(view: View) -> Iterator[Violation]:
    """Check that a mirror has each message of its origin at the same sequence, with its time."""
    if not view.is_final():
        return
    for rule in view.rules.streams:
        if not rule.mirror:
            continue
        origin, copy = view.final(rule.mirror), view.final(rule.name)
        for seq in sorted(set(origin) | set(copy)):
            here, there = copy.get(seq), origin.get(seq)
            if here is None or there is None or _content(here) != _content(there):
                lines = tuple(event for event in (here, there) if event is not None)
                text = f"{seq} of {rule.name} is not that of {rule.mirror}"
                yield Violation("copy", text, lines)


def _content(event: Event) -> tuple[str, str, int]:
    return event.subject, event.value, event.time


def sums(view: View) -> Iterator[Violation]:
    """Check that a stream with sources has each message of each source once, in order."""
    if not view.is_final():
        return
    for rule in view.rules.streams:
        if rule.sources:
            yield from _sum(view, rule)


def _sum(view: View, rule: StreamRule) -> Iterator[Violation]:
    came: dict[str, list[Event]] = defaultdict(list)
    for _, event in sorted(view.final(rule.name).items()):
        came[event.origin.partition(" ")[0]].append(event)
    for source in rule.sources:
        acked = {
            seq: message.value
            for message in view.messages[source].values()
            for seq in message.acked
        }
        places = [int(event.origin.partition(" ")[2]) for event in came[source]]
        for before, event in zip([0, *places], came[source], strict=False):
            place = int(event.origin.partition(" ")[2])
            if place != before + 1:
                text = f"{rule.name} has {place} of {source} behind {before}"
                yield Violation("copy", text, (event,))
            if acked.get(place, event.value) != event.value:
                text = f"{place} of {source} is {acked[place]}, in {rule.name} {event.value}"
                yield Violation("copy", text, (event,))
        for seq in sorted(set(acked) - set(places)):
            yield Violation("copy", f"{rule.name} lacks {acked[seq]}, {seq} of {source}")


CHECKS = (mirrors, sums)
