"""Histories in real time: volleys of pull requests, acknowledgements and publishes.

They are the histories of `histories`, but consumers may reach their limits, and every fetch is a
volley: some actions, `GAP` seconds apart, with every answer recorded until the last request has
ended. Times are chosen so that no two events are due within 30 ms of each other.

In addition to the steps that `common` leaves out, these are left out because nats-server behaves
inconsistently:

- subjects that end in `>` where filters have `*`: its file storage counts them with these filters,
  its purge keeps them, and a roll-up removes itself instead;
- counters and schedules on subjects that contain wildcards: its counters continue from the last
  message that matches, while jetgate counts each subject separately;
- purges within a volley: while the limit of pending acks blocks a no-wait request, the request
  waits in nats-server until a message is due, and ends at once in jetgate.

The last sequence of the stream in idle heartbeats is not compared: where filters skip messages, it
lags by one heartbeat in nats-server.
"""

from random import Random
from typing import Any

from tests.differential.common import HOUR, NAKS, Fields, Step, removes
from tests.differential.histories import (
    ACKS,
    CONSUMERS,
    FAR_AHEAD,
    FILTERS,
    LONG_AGO,
    WILD,
    headers,
    history,
    subject_of,
)

MS = 1_000_000
GAP = 0.1
EXPIRES, HEARTBEAT, DELAY = 580 * MS, 250 * MS, 120 * MS
PIN = "@pin"
"""A placeholder for the last pin id that the consumer sent."""

_LATER = f'-NAK {{"delay":{DELAY}}}'
_PULLED: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("max_ack_pending", 0.4, (1, 2, 3)),
    ("max_expires", 0.1, (300 * MS, 1000 * MS)),
)


def timed_history(seed: int, length: int) -> list[Step]:
    """Return the history of a seed, with fetches replaced by volleys and further requests added."""
    chance = Random(f"timed {seed}")
    steps = history(seed, length)
    stream: Fields = steps[0][1]
    # Positions at which Naks may occur, see `common`.
    last = max((place for place, step in enumerate(steps) if removes(step)), default=0)
    naks_from = last if seed % 2 else len(steps)
    wider: list[Step] = []
    for place, step in enumerate(steps):
        wider.append(_widened(chance, step, stream, naks=place > naks_from))
        if chance.random() < 0.2:
            wider.append(_question(chance))
    return wider


def _widened(chance: Random, step: Step, stream: Fields, *, naks: bool) -> Step:
    match step:
        case ("consumer", number, config, action, is_durable):
            wider = _consumer(chance, config, is_durable)
            if "max_msgs_per_subject" in stream:
                # With ack policy "all", nats-server delivers a message that an eviction permits
                # sometimes before, sometimes after it counts the evicting message.
                wider.pop("max_ack_pending", None)
            return "consumer", number, wider, action, is_durable
        case ("fetch", number, _):
            return _volley(chance, number, stream, naks=naks)
    return step


def _question(chance: Random) -> Step:
    """Return a request that changes nothing, with members that other histories do not use."""
    wanted, seq, offset = (
        chance.choice((*FILTERS, *WILD)),
        chance.randrange(15),
        chance.randrange(3),
    )
    when = chance.choice((LONG_AGO, FAR_AHEAD))
    questions: tuple[Step, ...] = (
        ("ask", "STREAM.INFO", {"subjects_filter": wanted, "offset": offset}),
        ("ask", "CONSUMER.NAMES", {"offset": offset}),
        ("ask", "CONSUMER.LIST", {"offset": offset}),
        ("get", {"start_time": when}),
        ("get", {"start_time": when, "next_by_subj": wanted}),
        ("get", {"last_by_subj": wanted, "seq": seq}),
        ("get", {"seq": seq, "start_time": when}),
        ("get", {}),
        ("direct last", wanted),
        ("direct", {"start_time": when}),
        ("direct", {"start_time": when, "batch": 2}),
        ("direct", {"start_time": when, "next_by_subj": wanted, "batch": 2}),
        ("direct", {"multi_last": [wanted], "up_to_time": when}),
        ("direct", {"multi_last": [wanted], "up_to_time": when, "up_to_seq": seq}),
        ("direct", {"next_by_subj": wanted}),
        ("direct", {"seq": seq, "start_time": when}),
        ("direct", {}),
    )
    return chance.choice(questions)


def _consumer(chance: Random, config: Fields, is_durable: bool) -> Fields:
    if not is_durable:
        config = {"inactive_threshold": HOUR, **config}  # longer than any history
    if "deliver_subject" in config:
        return dict(config)
    more = {name: chance.choice(values) for name, p, values in _PULLED if chance.random() < p}
    if chance.random() < 0.08 and "priority_policy" not in config:
        more |= {"priority_policy": "pinned_client", "priority_groups": ["g"]}
        more["priority_timeout"] = 600_000 * MS
    return config | more


def _volley(chance: Random, number: int, stream: Fields, *, naks: bool) -> Step:
    actions: list[Step] = [_pull(chance, number)]
    for _ in range(chance.randrange(4)):
        kind = chance.random()
        if kind < 0.4:
            other = number if chance.random() < 0.8 else chance.randrange(CONSUMERS)
            actions.append(_pull(chance, other))
        elif kind < 0.75:
            kinds = (*ACKS, *NAKS, _LATER) if naks else ACKS
            actions.append(("ack", chance.randrange(1000), chance.choice(kinds)))
        else:
            subject = subject_of(chance, stream)
            actions.append(("publish", subject, _allowed(chance, stream), ""))
    return "volley", actions


def _allowed(chance: Random, stream: Fields) -> list[tuple[str, str]]:
    """Return headers of a publish without those that remove messages."""
    removing = ("Nats-Rollup", "Nats-Schedule")
    return [one for one in headers(chance, stream) if one[0] not in removing]


def _pull(chance: Random, number: int) -> Step:
    asked: Fields = {"batch": chance.choice((0, 1, 1, 2, 2, 3, 4, 5, 20))}
    kind = chance.random()
    if kind < 0.7:
        asked["no_wait"] = True
    if kind > 0.35:
        asked["expires"] = EXPIRES
        if chance.random() < 0.5:
            asked["idle_heartbeat"] = chance.choice((HEARTBEAT, HEARTBEAT, HEARTBEAT, EXPIRES))
    drawn: tuple[tuple[float, str, Any], ...] = (
        (0.15, "max_bytes", chance.randrange(1, 400)),
        (0.15, "group", chance.choice(("g", "g", "g", "h"))),
        (0.05, "min_pending", chance.randrange(6)),
        (0.05, "min_ack_pending", chance.randrange(3)),
        (0.05, "priority", chance.randrange(11)),
        (0.05, "id", chance.choice((PIN, PIN, "x"))),
    )
    asked |= {name: value for p, name, value in drawn if chance.random() < p}
    return "pull", number, asked
