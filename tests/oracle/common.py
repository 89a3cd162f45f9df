"""What of a random history both servers are to answer alike; the rest of it is left out.

Left out is what the reference server does by a mistake of its own, and what differs there from run
to run; each rule says which. `Player` leaves out what depends on how a consumer stands.
"""

from collections.abc import Iterator
from typing import Any

Step = tuple[Any, ...]
Fields = dict[str, Any]

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
NAKS = ("-NAK", "-NAK", '-NAK {"delay":60000000000}')

_TOTALS = ("max_msgs", "max_bytes")


def common(steps: list[Step], *, has_naks: bool) -> list[Step]:
    """Return the steps of a history that both servers answer alike.

    Args:
        steps: Of the history; the first makes the stream.
        has_naks: Whether messages are refused in the second half of the history, in which then
            nothing is purged, see `_Common.may_remove`.
    """
    rules = _Common(steps)
    turn = len(steps) // 2 if has_naks else len(steps)
    return [step for place, step in enumerate(steps) if rules.keeps(step, place >= turn)]


def removes(step: Step) -> bool:
    """Whether a step purges, in whatever way."""
    return step[0] == "purge" or any(True for _ in _rolled_up(step))


def removed_filters(step: Step) -> list[str]:
    """Return by which filters a step purges; none, where it purges whatever the subject is.

    After a purge by filter, the reference server sets the ack floor of consumers that want more
    than this filter behind what was removed, also while messages before it are pending. Their
    acknowledgements then do not move the floor, which is therefore not compared. Where the floor
    was at the first message of the stream or behind it, what was removed stays pending until its
    ack wait is over, although it is gone: such a step is not done.
    """
    if step[0] == "purge":
        return [step[1]["filter"]] if "filter" in step[1] else []
    return [subject for subject, how in _rolled_up(step) if how == "sub"]


def _rolled_up(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the subject and the header of each roll-up of a step."""
    match step:
        case ("publish", subject, headers, _):
            messages = [(subject, headers, "")]
        case ("batch", messages, _):
            pass
        case _:
            return
    for subject, headers, *_ in messages:
        said = dict(headers)
        if "Nats-Rollup" in said:
            yield subject, said["Nats-Rollup"]
        elif "Nats-Schedule" in said:
            yield subject, "sub"  # It takes the place of the one before it.


class _Common:
    """What a history has and does, as far as it decides what is left out."""

    def __init__(self, steps: list[Step]) -> None:
        self.stream: Fields = steps[0][1]
        settings = [step[1] for step in steps if step[0] in ("stream", "update")]
        self.evicts = any(fields.get(name, 0) > 0 for fields in settings for name in _TOTALS)
        self.limits = self.evicts or any("max_msgs_per_subject" in each for each in settings)
        self.republishes = any("republish" in each for each in settings)
        retentions = {each["retention"] for each in settings if "retention" in each}
        self.by_interest = "interest" in retentions
        self.keeps_all = retentions <= {"limits"}
        self.has_chosen = self.acks_all = self.acks_none = False

    def keeps(self, step: Step, has_turned: bool) -> bool:
        """Whether both servers are to answer a step alike."""
        if removes(step) and not self.may_remove(step, has_turned):
            return False
        match step:
            case ("batch", _, _):
                # After every message of a batch it evicts, which changes the sequence that was last
                # before, as it republishes it.
                return not (self.republishes and self.evicts)
            case ("ack", _, kind) if kind in NAKS:
                return has_turned
            case ("reset", _, seq) if seq and not self.keeps_all:
                # Later acknowledgements remove what a consumer has passed over that way.
                return False
            case ("reset", _, _) | ("delete message", _, _):
                return not self.has_chosen
            case ("consumer", _, {"ack_policy": "all"}, _, _):
                self.acks_all = True
            case ("consumer", _, {"ack_policy": "none"}, _, _):
                self.acks_none = True
            case ("update", {"retention": _}) if self.acks_none:
                # A consumer without acknowledgements goes by the retention that it began with.
                return False
        match step:
            case ("consumer", _, {"deliver_policy": "last_per_subject"}, _, _):
                # What limits evict there counts as chosen, whatever it was.
                if self.limits:
                    return False
                self.has_chosen = True
            case ("update", {"max_msgs_per_subject": _, **others}) if others.keys() & set(_TOTALS):
                # It evicts by the totals first, and so more.
                return False
            case ("update", changed) if "duplicate_window" in changed:
                # It forgets the ids of what it did not store, because nobody wanted it.
                return not self.by_interest
        return True

    def may_remove(self, step: Step, has_turned: bool) -> bool:
        """Whether a purge or roll-up is alike on both.

        With any removal the reference server forgets which messages were refused, and gives them
        out again only when their ack wait is over. Last per subject counts what was never chosen
        as if it had been, when that is removed.
        """
        if has_turned or self.has_chosen:
            return False
        if self.acks_all and removed_filters(step):
            # What is below the floor, see `removed_filters`, cannot be acknowledged any more.
            return False
        if step[0] != "purge":
            return not self.evicts  # It evicts before it rolls up, and so more.
        # On file, a filtered consumer goes on counting the only message that is purged by sequence
        # or number, or by a filter that matches other subjects too.
        if self.stream["storage"] == "memory":
            return True
        return step[1].keys() <= {"filter"} and not step[1].get("filter", "").startswith("*")
