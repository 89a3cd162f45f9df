"""The steps of a random history that both servers should answer alike; other steps are left out.

Left out are steps in which nats-server makes a mistake of its own, or differs from run to run. Each
rule names the mistake. `Player` leaves out steps that depend on the state of a consumer.
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
        steps: Steps of the history; the first creates the stream.
        has_naks: True if Naks may occur in the second half of the history, in which then no purge
            occurs, see `_Common.may_remove`.
    """
    rules = _Common(steps)
    turn = len(steps) // 2 if has_naks else len(steps)
    return [step for place, step in enumerate(steps) if rules.keeps(step, place >= turn)]


def removes(step: Step) -> bool:
    """Return True if a step purges, by request or by a header."""
    return step[0] == "purge" or any(True for _ in _rolled_up(step))


def removed_filters(step: Step) -> list[str]:
    """Return the filters by which a step purges; none where it purges all subjects.

    After a purge by filter, nats-server sets the ack floor of consumers with wider filters after
    the removed messages, even while messages before them are pending. Acknowledgements of these
    messages then do not move the floor, so it is not compared. Where the floor was at the first
    message of the stream or after it, removed messages stay pending until their ack wait has
    passed; such a step is not performed.
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
        wording = dict(headers)
        if "Nats-Rollup" in wording:
            yield subject, wording["Nats-Rollup"]
        elif "Nats-Schedule" in wording:
            yield subject, "sub"  # a schedule replaces the previous message of its subject


class _Common:
    """The properties of a history that determine the steps to leave out."""

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
        """Return True if both servers should answer a step alike."""
        if removes(step) and not self.may_remove(step, has_turned):
            return False
        match step:
            case ("batch", _, _):
                # nats-server evicts after every message of a batch, which changes the last sequence
                # before that it republishes.
                return not (self.republishes and self.evicts)
            case ("ack", _, kind) if kind in NAKS:
                return has_turned
            case ("reset", _, seq) if seq and not self.keeps_all:
                # Later acknowledgements remove messages that a consumer has skipped this way.
                return False
            case ("reset", _, _) | ("delete message", _, _):
                return not self.has_chosen
            case ("consumer", _, {"ack_policy": "all"}, _, _):
                self.acks_all = True
            case ("consumer", _, {"ack_policy": "none"}, _, _):
                self.acks_none = True
            case ("update", {"retention": _}) if self.acks_none:
                # A consumer without acknowledgements follows the retention at its creation.
                return False
        match step:
            case ("consumer", _, {"deliver_policy": "last_per_subject"}, _, _):
                # Messages that limits evict there count as chosen, even if they were not.
                if self.limits:
                    return False
                self.has_chosen = True
            case ("update", {"max_msgs_per_subject": _, **others}) if others.keys() & set(_TOTALS):
                # nats-server applies the totals first, and so evicts more.
                return False
            case ("update", changed) if "duplicate_window" in changed:
                # nats-server forgets the ids of messages that it did not store for lack of
                # interest.
                return not self.by_interest
        return True

    def may_remove(self, step: Step, has_turned: bool) -> bool:
        """Return True if a purge or roll-up has the same effect on both.

        With any removal nats-server forgets which messages got a Nak, and redelivers them only
        after their ack wait. With last per subject it counts removed messages that were never
        chosen as if they had been.
        """
        if has_turned or self.has_chosen:
            return False
        if self.acks_all and removed_filters(step):
            # Messages below the floor, see `removed_filters`, can no longer be acknowledged.
            return False
        if step[0] != "purge":
            return not self.evicts  # nats-server evicts before it rolls up, and so removes more.
        # With file storage, a filtered consumer still counts the only message when it is purged by
        # sequence or number, or by a filter that also matches other subjects.
        if self.stream["storage"] == "memory":
            return True
        return step[1].keys() <= {"filter"} and not step[1].get("filter", "").startswith("*")
