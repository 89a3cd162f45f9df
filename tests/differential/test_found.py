"""Shortened histories that the hunt found to differ once; both servers answer them alike now."""

# Subject: random histories

import pytest

from tests.differential.common import Step
from tests.differential.comparing import difference
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

_MS = 1_000_000
# Some steps happen within tenths of a second: a result on a paused machine proves nothing.
TRIES = 3
_SUBJECTS = {"subjects": ["s.>", "t.a"]}
_MEMORY, _FILE = {**_SUBJECTS, "storage": "memory"}, {**_SUBJECTS, "storage": "file"}
_ALL = {"ack_policy": "explicit", "deliver_policy": "all"}
_AHEAD = {"deliver_policy": "by_start_sequence", "opt_start_seq": 15, "ack_policy": "explicit"}
_ATOMIC = {"allow_atomic": True}
_ROLL_UP, _ROLL_UP_ALL = [("Nats-Rollup", "sub")], [("Nats-Rollup", "all")]


def _publish(subject: str, *headers: tuple[str, str]) -> Step:
    return "publish", subject, list(headers), "p"


def _pull(**asked: int | bool | str) -> Step:
    return "pull", 0, {"batch": 1, "expires": 300 * _MS, **asked}


FOUND: dict[str, list[Step]] = {
    "a consumer in memory that found nothing shows how far it has looked": [
        ("stream", _MEMORY),
        ("consumer", 0, _ALL | {"filter_subject": "s.b"}, "", True),
        _publish("s.a"),
        ("volley", [_pull()]),
    ],
    "a consumer on file that found nothing shows what it delivered": [
        ("stream", _FILE),
        ("consumer", 0, _ALL | {"filter_subject": "s.b"}, "", True),
        _publish("s.a"),
        ("volley", [_pull()]),
        ("consumer", 1, _ALL | {"filter_subject": "s.b", "mem_storage": True}, "", True),
    ],
    "a roll-up of one subject follows one of all": [
        ("stream", _FILE | {"allow_rollup_hdrs": True}),
        _publish("s.c", *_ROLL_UP_ALL),
        ("consumer", 0, _ALL, "", True),
        _publish("s.c", *_ROLL_UP),
        _publish("s.a", *_ROLL_UP_ALL),
        ("fetch", 0, {"batch": 2, "no_wait": True}),
    ],
    "the last message of a subject with wildcards is the last of those it matches": [
        ("stream", _FILE | {"allow_direct": True}),
        _publish("s.*"),
        _publish("s.c"),
        ("direct last", "s.*"),
        ("direct", {"last_by_subj": "s.*"}),
        ("direct", {"multi_last": ["s.*"]}),
        ("get", {"last_by_subj": "s.*"}),
    ],
    "a redelivery counts towards max_bytes what it takes": [
        ("stream", _FILE),
        ("consumer", 0, _ALL, "", True),
        _publish("t.a"),
        ("fetch", 0, {"batch": 1, "no_wait": True}),
        ("ack", 0, "-NAK"),
        ("fetch", 0, {"batch": 1, "no_wait": True, "max_bytes": 65}),
    ],
    "a message that is too large goes behind the others that are due again": [
        ("stream", _FILE),
        ("consumer", 0, _ALL, "", True),
        ("publish", "s.b", [], "p" * 40),
        _publish("t.a"),
        ("fetch", 0, {"batch": 2, "no_wait": True}),
        ("ack", 0, "-NAK"),
        ("ack", 1, "-NAK"),
        ("fetch", 0, {"batch": 1, "no_wait": True, "max_bytes": 50}),
        ("fetch", 0, {"batch": 1, "no_wait": True}),
    ],
    "that there are no messages is said before that too many requests wait": [
        ("stream", _FILE),
        ("consumer", 0, _ALL | {"max_waiting": 1}, "", True),
        ("volley", [_pull(), ("pull", 0, {"batch": 1, "no_wait": True}), _pull(no_wait=True)]),
    ],
    "consumers go on behind a roll-up that nobody wants": [
        ("stream", _FILE | {"retention": "interest", "allow_rollup_hdrs": True} | _ATOMIC),
        ("consumer", 0, _ALL | {"filter_subject": "t.>"}, "", True),
        _publish("t.a"),
        _publish("s.b", *_ROLL_UP_ALL),
        ("batch", [("s.b", _ROLL_UP_ALL, "p"), ("s.a", [], "")], "1"),
        _publish("t.a"),
    ],
    "what a start that lies ahead passes over stays when interest begins to decide": [
        ("stream", _FILE),
        _publish("s.a"),
        ("consumer", 0, _AHEAD, "", True),
        ("update", {"retention": "interest"}),
        ("consumer", 1, _ALL, "", True),
        ("fetch", 1, {"batch": 1, "no_wait": True}),
    ],
    "with a consumer that goes, messages from its ack floor on may go": [
        ("stream", _FILE | {"retention": "interest"}),
        ("consumer", 0, _AHEAD, "", True),
        _publish("s.a"),
        _publish("s.b"),
        _publish("s.a"),
        ("consumer", 1, _ALL | {"deliver_policy": "last"}, "", True),
        ("delete consumer", 1),
        ("delete consumer", 0),
    ],
    "a consumer that starts ahead counts what is stored before, and looks at nothing": [
        ("stream", _FILE),
        ("consumer", 0, _AHEAD, "", True),
        ("volley", [_pull(batch=5), _publish("s.a"), _pull(no_wait=True), _pull()]),
    ],
}


@pytest.mark.parametrize("what", FOUND)
def test_both_servers_answer_alike(ours: JetgateServer, theirs: NatsServer, what: str) -> None:
    for _ in range(TRIES):
        found = difference(FOUND[what], ours.address, theirs.address)
        if found is None:
            return
    assert found is None, f"after {FOUND[what][: found[0] + 1]}:\n{found[1]}"
