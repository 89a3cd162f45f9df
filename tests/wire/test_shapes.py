"""Every request of the API: both servers answer with the same members, and the model knows them.

Values are the transcripts' matter; here whole answers are compared by their shape, granted and
refused ones, and each must be exactly what its type in `core.model` says.
"""

# Subject: streams

import json
import re
from functools import partial
from typing import Any

import pytest

from core.api.routes import ROUTES
from core.model.response import Response
from core.subjects.subject import matches
from tests.support.at_once import at_once
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.typed import problems
from tests.support.wire import Silence, Wire
from tests.wire.transcript import clean

FULL = {
    "name": "FULL",
    "subjects": ["full.>"],
    "description": "d",
    "max_consumers": 5,
    "max_msgs": 100,
    "max_bytes": 100_000,
    "max_age": 3600_000_000_000,
    "max_msgs_per_subject": 10,
    "max_msg_size": 1000,
    "discard": "new",
    "discard_new_per_subject": True,
    "duplicate_window": 1_000_000_000,
    "placement": {"tags": ["a"]},
    "compression": "s2",
    "first_seq": 10,
    "subject_transform": {"src": "full.*", "dest": "full.x.{{wildcard(1)}}"},
    "republish": {"src": ">", "dest": "again.>", "headers_only": True},
    "allow_direct": True,
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "consumer_limits": {"inactive_threshold": 60_000_000_000, "max_ack_pending": 10},
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": 60_000_000_000,
    "metadata": {"a": "b"},
}
CONSUMER = {
    "durable_name": "c",
    "name": "c",
    "description": "d",
    "deliver_policy": "by_start_sequence",
    "opt_start_seq": 1,
    "ack_policy": "explicit",
    "ack_wait": 1_000_000_000,
    "max_deliver": 5,
    "backoff": [1_000_000_000, 2_000_000_000],
    "filter_subjects": ["s.a", "s.b"],
    "sample_freq": "10",
    "max_waiting": 5,
    "max_ack_pending": 7,
    "headers_only": True,
    "max_batch": 10,
    "max_expires": 10_000_000_000,
    "max_bytes": 1000,
    "inactive_threshold": 60_000_000_000,
    "mem_storage": True,
    "metadata": {"a": "b"},
    "priority_groups": ["g"],
    "priority_policy": "pinned_client",
    "priority_timeout": 10_000_000_000,
}
PUSH = {
    "durable_name": "p",
    "deliver_subject": "to",
    "deliver_group": "g",
    "deliver_policy": "by_start_time",
    "opt_start_time": "2020-01-01T00:00:00Z",
    "idle_heartbeat": 1_000_000_000,
    "flow_control": True,
    "rate_limit_bps": 1 << 20,
    "replay_policy": "original",
}


def _consumer(config: dict[str, Any]) -> dict[str, Any]:
    return {"stream_name": "S", "config": config}


PAUSE = {"pause_until": "2099-01-01T00:00:00Z"}
STEPS: tuple[tuple[str, Any], ...] = (
    ("INFO", None),
    ("STREAM.NAMES", None),
    ("STREAM.LIST", None),
    ("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True}),
    ("STREAM.CREATE.S", {"name": "S", "subjects": ["other"]}),
    ("STREAM.CREATE.FULL", FULL),
    ("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}}),
    ("STREAM.CREATE.C", {"name": "C", "sources": [{"name": "S", "opt_start_seq": 1}]}),
    ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True, "max_msgs": 9}),
    ("STREAM.UPDATE.NONE", {"name": "NONE"}),
    ("s.a", None),
    ("s.b", None),
    ("s.c", None),
    ("STREAM.INFO.M", None),
    ("STREAM.INFO.C", None),
    ("STREAM.MSG.DELETE.S", {"seq": 2}),
    ("STREAM.MSG.DELETE.S", {"seq": 2}),
    ("STREAM.MSG.GET.S", {"seq": 1}),
    ("STREAM.MSG.GET.S", {"seq": 99}),
    ("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"}),
    ("STREAM.INFO.NONE", None),
    ("STREAM.NAMES", {"subject": "s.a"}),
    ("STREAM.LIST", {"offset": 1}),
    ("CONSUMER.CREATE.S.c", _consumer(CONSUMER)),
    ("CONSUMER.CREATE.S.c", _consumer(CONSUMER | {"ack_policy": "none"})),
    ("CONSUMER.CREATE.S", _consumer({"ack_policy": "none"})),
    ("CONSUMER.DURABLE.CREATE.S.p", _consumer(PUSH)),
    ("CONSUMER.CREATE.S.f.s.a", _consumer({"name": "f", "filter_subject": "s.a"})),
    ("CONSUMER.NAMES.S", None),
    ("CONSUMER.LIST.S", None),
    ("CONSUMER.NAMES.NONE", None),
    ("CONSUMER.LIST.NONE", None),
    ("CONSUMER.INFO.S.c", None),
    ("CONSUMER.INFO.S.none", None),
    ("CONSUMER.PAUSE.S.c", PAUSE),
    ("CONSUMER.INFO.S.c", None),
    ("CONSUMER.PAUSE.S.c", None),
    ("CONSUMER.PAUSE.S.none", None),
    ("CONSUMER.UNPIN.S.c", {"group": "g"}),
    ("CONSUMER.UNPIN.S.c", {"group": "none"}),
    ("CONSUMER.RESET.S.c", {"seq": 1}),
    ("CONSUMER.RESET.S.p", {"seq": 99}),
    ("CONSUMER.RESET.S.none", None),
    ("INFO", None),
    ("STREAM.LIST", None),
    *((f"STREAM.{verb}.S", {}) for verb in ("LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE")),
    ("STREAM.CANCEL_MOVE.S", {}),
    *((f"CONSUMER.{verb}.S.c", {}) for verb in ("LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE")),
    ("STREAM.SNAPSHOT.NONE", {"deliver_subject": "x"}),
    ("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}}),
    ("CONSUMER.DELETE.S.c", None),
    ("CONSUMER.DELETE.S.c", None),
    ("STREAM.PURGE.S", {"filter": "s.a"}),
    ("STREAM.PURGE.NONE", None),
    ("STREAM.DELETE.M", None),
    ("STREAM.DELETE.M", None),
    ("STREAM.CREATE.BAD", {"name": "OTHER"}),
    ("STREAM.CREATE.BAD", {"nonsense": 1}),
    ("STREAM.INFO.S.x", None),
    ("CONSUMER.CREATE.S.x", {"stream_name": "T"}),
    ("s.a", None),
)
UNANSWERED = re.compile(r"RESET\.S\.none|INFO\.S\.x")
"""Requests for what is not there: nobody answers them."""


def test_every_request_is_among_the_steps() -> None:
    """A new row of the API's table needs a step here."""
    asked = [subject.encode() for subject, _ in STEPS]
    missing = [
        route.subject
        for route in ROUTES
        if not any(matches(subject, route.subject.encode()) for subject in asked)
    ]
    assert not missing


def _answers(server: JetgateServer | NatsServer) -> list[Any]:
    clean(server)
    with Wire(server.address) as wire:
        wire.hello()
        found = []
        for subject, body in STEPS:
            payload = b"" if body is None else json.dumps(body).encode()
            target = subject if subject.startswith("s.") else f"$JS.API.{subject}"
            if subject in ("STREAM.INFO.M", "STREAM.INFO.C"):
                eventually(partial(_is_complete, wire, target), within=30)
            try:
                wait = 0.5 if UNANSWERED.search(subject) else 20.0
                answer = wire.request(target, payload, timeout=wait).payload
            except Silence:
                answer = b"null"
            found.append((subject, answer))
    clean(server)
    return found


def _is_complete(wire: Wire, target: str) -> bool:
    """Whether a copy has everything and says so when asked for its information."""
    info = wire.request(target).json()
    source = (info.get("sources") or [{"seq": 3}])[0]
    return info["state"]["last_seq"] == 3 and "seq" in source


def _shape(value: Any) -> Any:
    """The names of all members, and the kinds of their values; lists in any order."""
    if isinstance(value, dict):
        return {name: _shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted(json.dumps(_shape(item), sort_keys=True) for item in value)
    return type(value).__name__


def test_answers_have_the_same_members(
    nats_server: NatsServer, jetgate_server: JetgateServer
) -> None:
    servers: tuple[NatsServer | JetgateServer, ...] = (nats_server, jetgate_server)
    theirs, ours = at_once(_answers, servers)
    different = []
    for (subject, expected), (_, answered) in zip(theirs, ours, strict=True):
        assert not problems(expected), f"{subject}: {problems(expected)}"
        assert not problems(answered), f"{subject}: {problems(answered)}"
        if _shape(json.loads(expected)) != _shape(json.loads(answered)):
            different.append((subject, expected, answered))
    assert not different


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"surprise": 1}, "unknown"),
        ({"state": None}, "missing"),
        ({"config": {"name": "S"}}, "missing"),
        ({"created": "2026-01-01T00:00:00.000Z"}, "read as"),
    ],
)
def test_the_check_sees_what_is_wrong(
    nats_server: NatsServer, change: dict[str, Any], word: str
) -> None:
    with Wire(nats_server.address) as wire:
        wire.hello()
        answer = wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    clean(nats_server)
    assert issubclass(next(r.response for r in ROUTES if r.subject == "STREAM.CREATE.*"), Response)
    assert not problems(json.dumps(answer, separators=(",", ":")).encode())
    wrong = {k: v for k, v in (answer | change).items() if v is not None}
    found = problems(json.dumps(wrong, separators=(",", ":")).encode())
    assert word in " ".join(found)
