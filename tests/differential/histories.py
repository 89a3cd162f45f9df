"""Random histories of one stream and its consumers: sequences of possible actions of a client.

A history is a list of steps, each a tuple of a verb and plain values, drawn from a seed. Numbers
represent values that depend on answers ("the fifth delivered message"), so a history is valid for
any answers, and any step can be left out.

`common` leaves out steps with a known difference between the servers.
"""

from random import Random
from typing import Any

from tests.differential.common import HOUR, NAKS, SECOND, Fields, Step, common

CONSUMERS = 3
SUBJECTS = ("s.a", "s.b", "s.c", "s.a.x", "s.b.y", "t.a")
WILD = ("s.*", "s.*", "s.a.*", "s.*.y", "*.a")
"""Subjects of publishes that contain wildcards."""
FILTERS = ("s.a", "s.b", "s.c", "s.*", "s.>", "s.a.x", "s.*.y", "t.a", "t.>")
LONG_AGO, FAR_AHEAD = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
ACKS = ("+ACK", "+ACK", "+ACK", "", "+WPI", "+TERM", "+TERM why")
INCREMENTS = ("+1", "-5", "+0", "7", "x", "99999999999999999999999")
TIMES = ("@at 2099-01-01T00:00:00Z", "@every 1h", "0 0 0 1 1 *", "@every 1ms", "bad")

# Name of a configuration field, its probability, and its values.
_STREAM: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("retention", 0.5, ("limits", "interest", "workqueue")),
    ("max_msgs", 0.25, (1, 2, 5, 11)),
    ("max_bytes", 0.15, (100, 400, 1500)),
    ("max_msgs_per_subject", 0.3, (1, 2, 4)),
    ("max_msg_size", 0.1, (1, 20, 60)),
    ("discard", 0.25, ("new",)),
    ("deny_delete", 0.08, (True,)),
    ("deny_purge", 0.08, (True,)),
    ("allow_rollup_hdrs", 0.5, (True,)),
    ("allow_direct", 0.5, (True,)),
    ("allow_msg_ttl", 0.3, (True,)),
    ("first_seq", 0.15, (1, 7, 40)),
    ("max_consumers", 0.1, (1, 2, 3)),
    ("subject_transform", 0.1, ({"src": "s.*", "dest": "s.{{wildcard(1)}}.x"},)),
    ("republish", 0.1, ({"src": ">", "dest": "rp.>"},)),
    ("description", 0.1, ("d",)),
    ("metadata", 0.1, ({"k": "v"},)),
    ("consumer_limits", 0.1, ({"inactive_threshold": 1000 * SECOND},)),
    ("max_age", 0.05, (HOUR,)),
    ("duplicate_window", 0.1, (100 * SECOND, 10 * SECOND)),
    ("allow_atomic", 0.5, (True,)),
    ("allow_msg_schedules", 0.1, (True,)),
    ("subject_delete_marker_ttl", 0.1, (HOUR,)),
)
# Further members of an update: other subjects, and values that reset a setting.
_UPDATE: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("subjects", 0.1, (["s.>"], ["s.>", "t.a", "u"], ["s.*", "t.a"], ["s.>", "t.>"])),
    ("max_msgs", 0.1, (-1, 3)),
    ("max_bytes", 0.1, (-1, 200)),
    ("max_msgs_per_subject", 0.15, (-1, 1, 3)),
    ("max_msg_size", 0.1, (-1,)),
    ("max_age", 0.1, (0,)),
    ("max_consumers", 0.05, (-1,)),
    ("discard", 0.1, ("old",)),
    ("republish", 0.1, (None,)),
    ("subject_transform", 0.1, (None,)),
    ("allow_direct", 0.05, (False,)),
    ("allow_rollup_hdrs", 0.05, (False,)),
    ("allow_atomic", 0.05, (False,)),
    ("allow_msg_ttl", 0.05, (False,)),
    ("consumer_limits", 0.05, ({},)),
    ("duplicate_window", 0.05, (0,)),
)
_NO_WILDCARDS = ("allow_msg_counter", "allow_msg_schedules")
_NOT_OF_COUNTERS = (
    "retention",
    "discard",
    "allow_msg_ttl",
    "allow_msg_schedules",
    "subject_delete_marker_ttl",
)
_CONSUMER: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("max_deliver", 0.3, (1, 2, 3)),
    ("headers_only", 0.15, (True,)),
    ("max_waiting", 0.1, (1, 4)),
    ("max_batch", 0.1, (1, 4)),
    ("max_bytes", 0.1, (100, 400)),
    ("sample_freq", 0.1, ("100", "50%")),
    ("inactive_threshold", 0.1, (HOUR,)),
    ("mem_storage", 0.1, (True,)),
    ("metadata", 0.1, ({"a": "b"},)),
    ("ack_wait", 0.1, (60 * SECOND, 0)),
    ("backoff", 0.1, ([60 * SECOND], [60 * SECOND, 120 * SECOND])),
    ("pause_until", 0.06, (FAR_AHEAD, LONG_AGO)),
)
# Members that an update of a consumer may change; None removes a member.
_ALTERED: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("filter_subject", 0.25, FILTERS),
    ("filter_subjects", 0.15, (["s.a", "s.b"], ["s.*", "t.a"], ["s.a", "s.*.y", "t.>"])),
    ("max_deliver", 0.2, (None, 1, 2, 3)),
    ("ack_wait", 0.1, (60 * SECOND, 120 * SECOND)),
    ("backoff", 0.1, (None, [60 * SECOND])),
    ("headers_only", 0.1, (None, True)),
    ("max_batch", 0.1, (None, 1, 4)),
    ("max_bytes", 0.1, (None, 100)),
    ("sample_freq", 0.1, (None, "100")),
    ("inactive_threshold", 0.1, (HOUR,)),
    ("metadata", 0.1, (None, {"c": "d"})),
    ("description", 0.1, ("d",)),
    ("deliver_policy", 0.03, ("new",)),
    ("ack_policy", 0.03, ("none",)),
    ("max_waiting", 0.03, (7,)),
    ("idle_heartbeat", 0.03, (2 * HOUR,)),
    ("replay_policy", 0.03, ("original",)),
)
_PUSHED: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("idle_heartbeat", 0.4, (HOUR,)),
    ("flow_control", 0.3, (True,)),
    ("rate_limit_bps", 0.15, (1_000_000_000,)),
    ("deliver_group", 0.15, ("q",)),
    ("max_ack_pending", 0.3, (1, 3)),
    ("replay_policy", 0.1, ("original",)),
)
_ONLY_PULLED = ("max_waiting", "max_batch", "max_bytes", "priority_policy", "priority_groups")


def _some(chance: Random, table: tuple[tuple[str, float, tuple[Any, ...]], ...]) -> Fields:
    return {name: chance.choice(values) for name, p, values in table if chance.random() < p}


def stream_config(chance: Random) -> Fields:
    """Return a stream configuration without its name; most are valid."""
    config: Fields = {"subjects": ["s.>", "t.a"], "storage": chance.choice(("memory", "file"))}
    config |= _some(chance, _STREAM)
    if chance.random() < 0.12:
        config = {name: value for name, value in config.items() if name not in _NOT_OF_COUNTERS}
        config["allow_msg_counter"] = True
    elif "max_msgs_per_subject" in config and config.get("discard") == "new":
        config["discard_new_per_subject"] = chance.random() < 0.5
    return config


def consumer_config(chance: Random) -> Fields:
    """Return a consumer configuration without its name; most are valid."""
    policy = chance.choice(("all", "all", "all", "last", "new", "last_per_subject", "seq", "time"))
    config: Fields = {"ack_policy": chance.choice(("explicit", "explicit", "none", "all"))}
    if policy == "seq":
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": chance.randrange(1, 20)}
    elif policy == "time":
        config |= {"deliver_policy": "by_start_time", "opt_start_time": LONG_AGO}
    else:
        config["deliver_policy"] = policy
    kind = chance.random()
    if kind < 0.4:
        config["filter_subject"] = chance.choice(FILTERS)
    elif kind < 0.6:
        config["filter_subjects"] = chance.sample(FILTERS, chance.randrange(1, 4))
    elif policy == "last_per_subject":
        config["filter_subject"] = "s.>"
    if chance.random() < 0.1:
        how = chance.choice(("overflow", "prioritized"))
        config |= {"priority_policy": how, "priority_groups": ["g"]}
    return config | _some(chance, _CONSUMER)


def _pushing(chance: Random, number: int, config: Fields) -> Fields:
    """Return the configuration of a push consumer, made from that of a pull consumer."""
    kept = {name: value for name, value in config.items() if name not in _ONLY_PULLED}
    more = _some(chance, _PUSHED)
    if config["ack_policy"] == "none":
        more.pop("max_ack_pending", None)
    # The subscriber of `pd.>` is in no queue group; that of `pq.>` is.
    subject = f"pq.{number}" if "deliver_group" in more else f"pd.{number}"
    return kept | more | {"deliver_subject": subject}


def headers(chance: Random, stream: Fields) -> list[tuple[str, str]]:
    """Return headers of a publish; `@` stands for the name of the stream."""
    by_filter = chance.random() < 0.05
    drawn: tuple[tuple[float, str, str], ...] = (
        (0.2, "Nats-Msg-Id", chance.choice(("i1", "i2", "i3", "i4"))),
        (0.12, "Nats-Rollup", chance.choice(("sub", "sub", "all"))),
        (0.06, "Nats-Expected-Last-Sequence", str(chance.randrange(15))),
        (
            0.9 if by_filter else 0.1,
            "Nats-Expected-Last-Subject-Sequence",
            str(chance.randrange(12)),
        ),
        (
            1.0 if by_filter else 0.02,
            "Nats-Expected-Last-Subject-Sequence-Subject",
            chance.choice((*FILTERS, *WILD)),
        ),
        (0.04, "Nats-Expected-Last-Msg-Id", chance.choice(("i1", "i2", ""))),
        (0.03, "Nats-Expected-Stream", chance.choice(("X", "@"))),
        (0.08, "Nats-TTL", chance.choice(("1h", "never", "3600", "0"))),
        (0.1, "X-Any", "v"),
        (0.8 if "allow_msg_counter" in stream else 0.01, "Nats-Incr", chance.choice(INCREMENTS)),
        (0.3 if "allow_msg_schedules" in stream else 0.01, "Nats-Schedule", chance.choice(TIMES)),
        (0.2 if "allow_msg_schedules" in stream else 0.01, "Nats-Schedule-Target", "s.c"),
    )
    return [(name, value) for p, name, value in drawn if chance.random() < p]


def _publish(chance: Random, stream: Fields) -> Step:
    size = chance.choice((0, 1, 5, 10, 40))
    if "allow_msg_counter" in stream and chance.random() < 0.9:
        size = 0
    return "publish", subject_of(chance, stream), headers(chance, stream), "p" * size


def subject_of(chance: Random, stream: Fields) -> str:
    """Return a subject of the stream, or one that contains wildcards."""
    if chance.random() > 0.1 or any(name in stream for name in _NO_WILDCARDS):
        return chance.choice(SUBJECTS)
    return chance.choice(WILD)


def _batch(chance: Random, stream: Fields) -> Step:
    messages = [_publish(chance, stream)[1:] for _ in range(chance.randint(1, 4))]
    # Fewer headers, because the first refused message ends the batch.
    fewer = [(s, [h for h in given if chance.random() < 0.6], p) for s, given, p in messages]
    return "batch", fewer, chance.choice(("1", "1", "1", "1", "eob", "x"))


def _consumer(chance: Random) -> Step:
    action = chance.choice(("create", "create", "update", ""))
    is_durable = chance.random() < 0.8
    number, config = chance.randrange(CONSUMERS), consumer_config(chance)
    if chance.random() < 0.25:
        config = _pushing(chance, number, config)
    return "consumer", number, config, action, is_durable


def _fetch(chance: Random) -> Step:
    asked: Fields = {"batch": chance.randrange(1, 6), "no_wait": True}
    if chance.random() < 0.15:
        asked["max_bytes"] = chance.randrange(51, 300)
    if chance.random() < 0.1:
        asked |= {"group": chance.choice("gh"), "min_pending": chance.randrange(6)}
    return "fetch", chance.randrange(CONSUMERS), asked


def _ack(chance: Random) -> Step:
    return "ack", chance.randrange(1000), chance.choice(ACKS + NAKS)


def _purge(chance: Random) -> Step:
    wanted = chance.choice((*FILTERS, *WILD, "s.a.>", "*.*.y", ">"))
    asked: Fields = {"filter": wanted} if chance.random() < 0.6 else {}
    kind = chance.random()
    if kind < 0.35:
        asked["seq"] = chance.randrange(25)
    elif kind < 0.7:
        asked["keep"] = chance.randrange(6)
    return "purge", asked


def _question(chance: Random) -> Fields:
    """Return a request that both STREAM.MSG.GET and Direct Get accept."""
    wanted, seq = chance.choice(FILTERS), chance.randrange(25)
    questions: tuple[Fields, ...] = (
        {"seq": seq},
        {"last_by_subj": wanted},
        {"next_by_subj": wanted, "seq": seq},
    )
    return chance.choice(questions)


def _direct(chance: Random) -> Step:
    wanted, seq = chance.choice((*FILTERS, *WILD)), chance.randrange(1, 25)
    most = chance.randrange(1, 5)
    several: Fields = {"multi_last": chance.sample(FILTERS, chance.randrange(1, 4))}
    drawn: tuple[tuple[float, str, Any], ...] = (
        (0.3, "up_to_seq", seq),
        (0.3, "batch", most),
        (0.3, "seq", chance.randrange(12)),
        (0.2, "max_bytes", 8 * seq),
        (0.1, "no_hdr", True),
    )
    several |= {name: value for p, name, value in drawn if chance.random() < p}
    questions: tuple[Fields, ...] = (
        _question(chance),
        _question(chance) | {"no_hdr": True},
        several,
        several,
        {"batch": most, "seq": seq},
        {"batch": most, "seq": seq, "max_bytes": 8 * seq},
        {"batch": most, "next_by_subj": wanted, "seq": seq},
        {"batch": most, "next_by_subj": wanted, "seq": seq, "max_bytes": 8 * seq},
        {"batch": most, "last_by_subj": wanted},
    )
    return "direct", chance.choice(questions)


def _step(chance: Random, stream: Fields) -> Step:
    number = chance.randrange(CONSUMERS)
    kinds: tuple[tuple[int, Step], ...] = (
        (28, _publish(chance, stream)),
        (8, _batch(chance, stream)),
        (10, _consumer(chance)),
        (4, ("alter", number, _some(chance, _ALTERED))),
        (16, _fetch(chance)),
        (16, _ack(chance)),
        (4, _purge(chance)),
        (4, ("delete message", chance.randrange(1, 25), chance.random() < 0.5)),
        (3, ("get", _question(chance))),
        (4, _direct(chance)),
        (2, ("delete consumer", number)),
        (2, ("reset", number, chance.randrange(20))),
        (1, ("pause", number, chance.choice((FAR_AHEAD, LONG_AGO, None)))),
        (2, ("update", _some(chance, _STREAM))),
        (2, ("update", _some(chance, _UPDATE))),
        (1, ("unpin", number)),
    )
    return chance.choices([step for _, step in kinds], [weight for weight, _ in kinds])[0]


def history(seed: int, length: int) -> list[Step]:
    """Return steps that create a stream, consumers and messages, then `length` random steps."""
    chance = Random(seed)
    config = stream_config(chance)
    steps: list[Step] = [("stream", config)]
    steps += [_consumer(chance) for _ in range(chance.randrange(3))]
    plain = ([("Nats-Incr", "+1")], "") if "allow_msg_counter" in config else ([], "p")
    steps += [("publish", chance.choice(SUBJECTS), *plain) for _ in range(chance.randint(1, 8))]
    steps += [_step(chance, config) for _ in range(length)]
    return common(steps, has_naks=bool(seed % 2))
