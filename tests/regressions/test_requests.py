"""Past bugs of servers like this one: subjects, numbers, JSON and headers of clients."""

# Subject: API

import json
from typing import Any

import pytest

from tests.regressions.desk import Desk, code

HUGE = [0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    "subject", ["A.>.b", "A..b", ".A", "A.", "A.>>", ">.A", "A.* .b", "A.\tb", "A.*.>.x", ""]
)
def test_malformed_subjects_are_refused_everywhere(desk: Desk, subject: str) -> None:
    """A wildcard in the wrong place crashed the server or matched everything."""
    desk.stream("A")
    made = desk.api("STREAM.CREATE.B", {"name": "B", "subjects": [subject]})
    if subject not in ("A.>>", ""):
        assert code(made), made
    config = {"durable_name": "c", "filter_subject": subject}
    answer = desk.api("CONSUMER.CREATE.A.c", {"stream_name": "A", "config": config})
    assert "type" in answer
    desk.publish("A.x", b"1")
    for request in (
        ("STREAM.PURGE.A", {"filter": subject}),
        ("STREAM.INFO.A", {"subjects_filter": subject}),
        ("STREAM.NAMES", {"subject": subject}),
        ("STREAM.MSG.GET.A", {"last_by_subj": subject}),
    ):
        assert "type" in desk.api(*request)


def test_wildcards_that_overlap_in_part_are_seen(desk: Desk) -> None:
    """Two patterns that share only some subjects were both accepted."""
    desk.ok("STREAM.CREATE.A", {"name": "A", "subjects": ["a.*.c", "x.>"]})
    for number, (subject, clash) in enumerate(
        (
            ("a.b.*", True),
            ("*.b.c", True),
            ("a.*.d", False),
            ("*.y", True),
            ("a.b", False),
            (">", True),
            ("a.b.c.d", False),
        )
    ):
        name = f"B{number}"
        answer = desk.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
        assert bool(code(answer)) == clash, (subject, answer)
        desk.api(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("number", [*HUGE, 2**63, 2**64, 10**30, -(10**30), 1e308, "1", None])
def test_huge_and_negative_numbers_are_answered(desk: Desk, number: Any) -> None:
    """A number beyond all bounds, in a page's offset above all, ended the server."""
    desk.stream("A")
    desk.consumer("A")
    desk.publish("A.x", b"1")
    for subject, member in (
        ("STREAM.NAMES", "offset"),
        ("STREAM.LIST", "offset"),
        ("STREAM.INFO.A", "offset"),
        ("CONSUMER.NAMES.A", "offset"),
        ("CONSUMER.LIST.A", "offset"),
        ("STREAM.MSG.GET.A", "seq"),
        ("STREAM.MSG.DELETE.A", "seq"),
        ("STREAM.PURGE.A", "seq"),
        ("STREAM.PURGE.A", "keep"),
        ("CONSUMER.RESET.A.c", "seq"),
    ):
        assert "type" in desk.api(subject, {member: number}), (subject, member)
    for member in ("max_msgs", "max_bytes", "max_age", "max_msg_size", "first_seq", "num_replicas"):
        name = f"B_{member}"
        assert "type" in desk.api(f"STREAM.CREATE.{name}", {"name": name, member: number}), member
        desk.api(f"STREAM.DELETE.{name}")
    for member in ("ack_wait", "max_deliver", "max_ack_pending", "max_waiting", "opt_start_seq"):
        config = {"durable_name": "d", "ack_policy": "explicit", member: number}
        request = {"stream_name": "A", "config": config}
        assert "type" in desk.api("CONSUMER.CREATE.A.d", request), member
        desk.api("CONSUMER.DELETE.A.d")
    for member in ("batch", "max_bytes", "priority", "min_pending"):
        body = {member: number, "no_wait": True}
        desk.wire.publish("$JS.API.CONSUMER.MSG.NEXT.A.c", json.dumps(body).encode(), reply=b"in.n")
    desk.wire.flush()
    assert "config" in desk.ok("STREAM.INFO.A")


def test_null_among_the_members_of_a_list(desk: Desk) -> None:
    """A null where an object was expected ended the server."""
    desk.stream("A", allow_direct=True)
    configs: tuple[dict[str, Any], ...] = (
        {"sources": [None]},
        {"subjects": [None]},
        {"placement": {"tags": [None]}},
        {"sources": [{"name": "A", "subject_transforms": [None]}]},
        {"metadata": {"a": None}},
    )
    for number, config in enumerate(configs):
        name = f"N{number}"
        assert "type" in desk.api(f"STREAM.CREATE.{name}", {"name": name, **config})
        desk.api(f"STREAM.DELETE.{name}")
    for config in (
        {"filter_subjects": [None]},
        {"backoff": [None]},
        {"priority_groups": [None]},
        {"metadata": None},
    ):
        given = {"durable_name": "c", "ack_policy": "explicit", **config}
        assert "type" in desk.api("CONSUMER.CREATE.A.c", {"stream_name": "A", "config": given})
        desk.api("CONSUMER.DELETE.A.c")
    frame = desk.wire.request("$JS.API.DIRECT.GET.A", b'{"multi_last":[null]}')
    assert frame.headers.startswith(b"NATS/1.0 4")
    assert "config" in desk.ok("STREAM.INFO.A")


def test_headers_whose_names_begin_alike_are_distinguished(desk: Desk) -> None:
    """A header was found in the middle of another one, or in the value of one before it."""
    desk.stream("A", allow_direct=True)
    headers = {
        "Nats_Msg_Id_2": "other",
        "X_Nats_Msg_Id": "more",
        "Y": "Nats-Msg-Id: inside",
        "Nats_Expected_Stream_X": "B",
        "Nats_Expected_Last_Sequence_": "99",
    }
    body = b"NATS/1.0\r\nNats-Msg-Id: payload\r\n\r\nrest"
    assert desk.publish("A.x", body, **headers) == {"stream": "A", "seq": 1}
    assert desk.publish("A.x", body, **headers) == {"stream": "A", "seq": 2}
    assert desk.publish("A.x", body, **headers, Nats_Msg_Id="i")["seq"] == 3
    assert desk.publish("A.x", body, **headers, Nats_Msg_Id="i")["duplicate"]
    frame = desk.wire.request("$JS.API.DIRECT.GET.A.A.x")
    assert frame.payload == body
    desk.consumer("A", headers_only=True)
    only = desk.pull("A", 1)[0]
    assert only.payload == b""
    assert b"Nats-Msg-Size: %d\r\n" % len(body) in only.headers


def test_illegal_updates_are_refused_and_change_nothing(desk: Desk) -> None:
    """A change of the storage or of the replicas of a stream was taken and broke it."""
    desk.stream("A")
    desk.fill("A", 3)
    config = desk.ok("STREAM.INFO.A")["config"]
    changes: tuple[dict[str, Any], ...] = (
        {"storage": "memory"},
        {"num_replicas": 3},
        {"num_replicas": 6},
        {"retention": "workqueue"},
        {"max_consumers": 5},
        {"subjects": []},
        {"mirror": {"name": "B"}},
        {"sealed": False, "deny_delete": True, "subjects": ["A..b"]},
    )
    for change in changes:
        answer = desk.api("STREAM.UPDATE.A", config | change)
        if "error" not in answer:
            assert desk.ok("STREAM.UPDATE.A", config)
    after = desk.ok("STREAM.INFO.A")
    assert after["state"]["messages"] == 3
    assert after["config"]["storage"] == "file"
    assert desk.publish("A.x", b"4")["seq"] == 4
