# ruff: noqa: E501  (tables read better in rows)
"""Configurations, valid and invalid, that jetgate's rules and nats-server must judge alike."""

import json
from typing import Any

Body = dict[str, Any] | str
Pair = tuple[Body, Body]

NAME_255, NAME_256 = "n" * 255, "n" * 256
BIG = 2**63 - 1
NUMBERS: tuple[object, ...] = (
    0, -1, -2, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, -(2**63), BIG, 2**63, 2**64 - 1, 2**64,
    1.5, 1e308, "1", None, True, [], {},
)  # fmt: skip
"""Values for every numeric member.

Members that reserve storage get smaller values below, so that no storage is reserved.
"""


def _numbers(field: str, **more: object) -> list[Body]:
    return [{"name": "S", **more, field: number} for number in NUMBERS]


def _texts(field: str, *values: object) -> list[Body]:
    return [{"name": "S", field: value} for value in values]


SUBJECT_LISTS: tuple[list[object], ...] = (
    [], ["a"], ["a", "b"], ["a", "a"], ["a.*", "a.b"], ["a.b", "a.>"], ["a.>", "b.>", "a.b.c"],
    [""], ["a..b"], [".a"], ["a."], ["a b"], ["a\tb"], ["a\n"], ["*"], ["*.a", "a.*"], [">"],
    ["a.>.b"], ["a.*.c", "a.b.*"], ["a*"], ["a.b*", "a.*"], ["$JS.API.x"], ["$JS.>"], ["$JS.EVENT.>"],
    ["$JS.EVENT.ADVISORY.>"], ["$JSC.a"], ["$NRG.a"], ["$SYS.>"], ["$SYS.ACCOUNT.>"], ["$SYS.A"],
    ["*.API.x"], ["$KV.b.>"], ["a", None], [1], ["a", "b", ["c"]], ["é.ü"], ["a\x00b"], ["A"], ["$JS"],
    [f"s{i}" for i in range(300)], ["a." + "b" * 1000],
)  # fmt: skip

ENUMS: dict[str, tuple[object, ...]] = {
    "retention": ("limits", "interest", "workqueue", "Limits", "", "x", None, 1, {}, []),
    "discard": ("old", "new", "OLD", "New", "", None, 0),
    "storage": ("file", "memory", "File", "any", "", None, 22),
    "compression": ("none", "s2", "S2", "", "zstd", None, 1),
    "persist_mode": ("", "default", "async", "Async", None),
}
FLAGS = (
    "no_ack", "allow_direct", "mirror_direct", "discard_new_per_subject", "sealed", "deny_delete",
    "deny_purge", "allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_counter", "allow_atomic",
    "allow_msg_schedules", "allow_batched", "pedantic",
)  # fmt: skip

SYNTAX: tuple[str, ...] = (
    "", " ", "{", "}", "[]", "[1]", '"x"', "null", "1", "true", "tru", "nul", "-", "1.", '"', '"abc',
    '{"name":"S"} {"x":1}', '{"name":"S"}{"description":"d"}', '{"name":"S",}', '{"name":"S" "b":1}',
    "{name:1}", '{"name":"S"', '{"name":"S\x01"}', '{"name":tru}', '{"name":"\\x"}',
    '{"name":"\\u12g4"}', '{"name":01}', '{"name":-}', '{"name":1.}', '{"name":1e}', '{"name":nan}',
    '{"a":[1,]}', '{"a":[1 2]}', '{"name":"S"}x', '{"name":"S"}}', "ÿ", '{"name"}', "{1:2}",
    '{"name":"S', '{"name":.5}', '{"name":+5}', "{'name':1}", '{"name":"S","name":"B"}',
    '{"NAME":"S"}', "[", '{"sources":[null],"name":"S"}', '{"foo":1,', '{"name":"S","foo":1}',
    '{"name":"S","Foo\\"<":1}', '{"name":"S","foo":1,"retention":"x"}', '{"foo":1} x',
    '{"name":"S","max_msgs":"1","foo":2}', '{"name":"S","metadata":{"a":1}}',
    '{"name":"S","metadata":[]}', '{"name":"S","metadata":{"b":"1","a":null}}',
    '{"name":"S","metadata":{"b":"1"},"metadata":{"c":"2"}}',
    '{"name":"S","metadata":{"b":"1"},"metadata":null}', '{"name":"S","subjects":["a"],"subjects":["c"]}',
    '{"name":"S","consumer_limits":{"max_ack_pending":5},"consumer_limits":{"inactive_threshold":5}}',
    '{"name":"S","na\u017fe":5}', '{"name":"S","\u017fubjects":["q"]}', '{"name":"S","max_msgs":-0}',
    '{"name":"S","max_msgs":1E2}', '{"name":"S","max_msgs":1.0}', '{"name":"S","description":"a\\ud800b"}',
    '{"name":"S","description":"\\ud83d\\ude00 é \\u2028 <&> \\b\\f\\n\\r\\t\\u0001 \\/ \x7f"}',
    '{"name":"S","retention":"lim\\u0069ts"}', '{"name":"S","compression":"s\\u0032"}',
    '{"name":"S","storage":" file"}', '{"name":"S","max_age":1e9}', '{"name":"S","persist_mode":null}',
    '{"name":"\\', '{"":1}', '{"name":"S",,}', "{,}", "[,", '{"name":"S"]', '{"a":1:2}',
    '{"name"::1}', '{"name":"\n"}', '\x00', '{"name":"S"}\x00', ' \n\t{"name":"S"}  ',
    '{"name":"S","placement":{"tags":5}}', '{"name":"S","placement":{"tags":[5]}}', "[" * 500,
    '{"name":"S","consumer_limits":5}', '{"name":"S","mirror":[]}', '{"name":"S","sources":5}',
    '{"name":"S","sources":[5]}', '{"name":"S","mirror":{"nam":"x"}}', '{"a":' * 10001 + "1" + "}" * 10001,
    '{"name":"S","mirror":{"name":"x","external":{"api":5}}}', '{"name":"S","template_owner":"x"}',
    '{"name":"S","sources":[{"name":"b","opt_start_time":"x"}]}',
    '{"name":"S","sources":[{"name":"b","opt_start_time":5}]}',
    '{"name":"S","sources":[{"subject_transforms":[{"src":5}]}]}', '{"name":"S","rollup_hdrs":true}',
)  # fmt: skip

TRANSFORMS: tuple[tuple[str, str], ...] = (
    ("a.*", "b.$1"), ("a.*", "b.{{wildcard(1)}}"), ("a.*", "b.{{ Wildcard( 1 ) }}"), ("a.*", "b.$2"),
    ("a.*", "b.{{wildcard(2)}}"), ("a.*", "b.{{wildcard()}}"), ("a.*", "b.{{wildcard(x)}}"),
    ("a.*", "b.{{wildcard(1,2)}}"), ("a.*.*", "b.{{partition(3,1,2)}}"), ("a.*", "b.{{partition(3)}}"),
    ("a", "b.{{partition(3)}}"), ("a", "b.{{partition(x)}}"), ("a", "b.{{partition(3,1)}}"),
    ("a.*", "b.{{partition(3,2)}}"), ("a.*", "b.{{partition(9999999999)}}"), ("a", "b.$1"),
    ("a", "b.{{wildcard(1)}}"), ("a.*", "b.{{split(1,-)}}"), ("a.*", "b.{{split(1)}}"),
    ("a.*", "b.{{split(1,-,3)}}"), ("a.*", "b.{{split(1, )}}"), ("a.*", "b.{{splitfromleft(1,3)}}"),
    ("a.*", "b.{{SplitFromRight(1,x)}}"), ("a.*", "b.{{slicefromleft(1,2)}}"), ("a.*", "b.{{left(1,3)}}"),
    ("a.*", "b.{{slicefromright(1,99999999999)}}"), ("a.*", "b.{{right(2,1)}}"), ("a.*", "b.{{random(5)}}"),
    ("a", "b.{{random(5)}}"), ("a", "b.{{random(5,6)}}"), ("a.*", "b.{{nope(1)}}"), ("a.*", "b.*"),
    ("a.>", "b.>"), ("a.>", "b"), ("a", "b.>"), (">", ">"), ("", "x.>"), ("", "x"), ("a..b", "c"),
    ("a", "c..d"), ("a", ""), ("a b", "c"), ("a", "c d"), ("a", ".c"), ("a.>.b", "c"), ("a", "c.>.d"),
    ("a.*", "b.$x"), ("a.*", "b.$0"), ("a.*", "b.$-1"), ("*", "{{wildcard(1)}}"), ("a.*", "b.{{wildcard(0)}}"),
)  # fmt: skip

SOURCES: tuple[dict[str, Any], ...] = (
    {"name": "ORIGIN"}, {"name": "missing"}, {"name": ""}, {"name": "a.b"}, {"name": "S"},
    {"name": "ORIGIN", "filter_subject": "o.x"}, {"name": "ORIGIN", "filter_subject": "o..x"},
    {"name": "ORIGIN", "opt_start_seq": 5}, {"name": "ORIGIN", "opt_start_time": "2024-01-02T03:04:05.06Z"},
    {"name": "ORIGIN", "filter_subject": "o.x", "subject_transforms": [{"src": "o.x", "dest": "y"}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o.*", "dest": "y.$1"}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o..x", "dest": "y"}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o.x", "dest": "y..z"}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o.x", "dest": "y.$1"}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o.x", "dest": ""}, {"src": "o.y", "dest": ""}]},
    {"name": "ORIGIN", "subject_transforms": [{"src": "o.x", "dest": ""}, {"src": "o.*", "dest": ""}]},
    {"name": "far", "external": {"api": "$JS.hub.API", "deliver": "deliver.far"}},
    {"name": "far", "external": {"api": "$JS.API", "deliver": "deliver.far"}},
    {"name": "far", "external": {"api": "x.*", "deliver": "d"}},
    {"name": "far", "external": {"api": "x", "deliver": "d.>"}},
    {"name": "ORIGIN", "consumer": {"name": "c", "deliver_subject": "d"}},
    {"name": "ORIGIN", "consumer": {"name": "c.d", "deliver_subject": "d"}},
    {"name": "ORIGIN", "consumer": {"name": "c", "deliver_subject": "d.*"}},
    {"name": "ORIGIN", "consumer": {"name": "c"}},
    {"name": "ORIGIN", "opt_start_seq": 1, "consumer": {"name": "c", "deliver_subject": "d"}},
    {"name": "ORIGIN", "filter_subject": "o.x", "consumer": {"name": "c", "deliver_subject": "d"}},
)  # fmt: skip

MIRROR_CONFLICTS: tuple[dict[str, object], ...] = (
    {"subjects": ["x"]}, {"sources": [{"name": "o"}]}, {"first_seq": 3}, {"allow_msg_counter": True},
    {"allow_atomic": True}, {"allow_batched": True}, {"allow_msg_schedules": True}, {"max_msg_size": 10},
    {"subject_delete_marker_ttl": 10**9}, {"duplicate_window": 10**9}, {"mirror_direct": True},
    {"max_msg_size": 2000}, {"allow_direct": True}, {"max_age": 10**9},
)  # fmt: skip

COMBINATIONS: tuple[dict[str, object], ...] = (
    {"deny_purge": True, "allow_rollup_hdrs": True}, {"discard_new_per_subject": True, "discard": "new"},
    {"discard_new_per_subject": True, "max_msgs_per_subject": 1},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"max_age": 99_999_999}, {"max_age": 100_000_000}, {"max_age": 10**9}, {"max_age": 3600 * 10**9},
    {"max_age": 10**9, "duplicate_window": 2 * 10**9}, {"duplicate_window": 99_999_999},
    {"max_age": 10**9, "pedantic": True}, {"republish": {"dest": "r.>"}}, {"republish": {"dest": ">"}},
    {"republish": {"dest": "r.>"}, "pedantic": True}, {"republish": {"src": "a", "dest": "S"}},
    {"republish": {"src": ">", "dest": "r.>", "headers_only": True}}, {"republish": {"src": "a"}},
    {"republish": {"src": "S", "dest": "r.$1"}}, {"republish": {"src": "S", "dest": "r"}},
    {"republish": {}}, {"subjects": [">"], "no_ack": True}, {"subjects": ["$JS.>"], "no_ack": True},
    {"subjects": ["a"], "subject_transform": {"src": "a", "dest": "b"}, "republish": {"src": ">", "dest": ">"}},
    {"subjects": [">"], "no_ack": True, "num_replicas": 3}, {"placement": {}}, {"placement": {"cluster": "c"}},
    {"placement": {"tags": ["a"]}}, {"placement": {"preferred": "p"}}, {"placement": {"cluster": ""}},
    {"subject_delete_marker_ttl": 10**9}, {"subject_delete_marker_ttl": 10**9 - 1},
    {"subject_delete_marker_ttl": -1}, {"subject_delete_marker_ttl": 10**9, "pedantic": True},
    {"subject_delete_marker_ttl": 10**9, "allow_msg_ttl": True, "pedantic": True},
    {"subject_delete_marker_ttl": 10**9, "deny_purge": True}, {"allow_msg_schedules": True, "pedantic": True},
    {"allow_msg_schedules": True, "discard": "new"}, {"allow_msg_schedules": True, "deny_purge": True},
    {"allow_msg_counter": True, "discard": "new"}, {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True}, {"allow_msg_counter": True, "retention": "interest"},
    {"persist_mode": "async", "storage": "memory"}, {"persist_mode": "async", "num_replicas": 3},
    {"persist_mode": "async", "allow_atomic": True}, {"metadata": {"k": "v" * (128 * 1024 - 1)}},
    {"metadata": {"k": "v" * (128 * 1024)}}, {"metadata": {"_nats.ver": "1", "_nats.level": "9", "_nats.x": "y"}},
    {"metadata": {"_nats.req.level": "99"}}, {"metadata": {"z": "1", "a": "2", "m": "<&>"}},
    {"description": "d" * 4096}, {"description": "d" * 4097}, {"description": "é" * 2049},
    {"consumer_limits": {"inactive_threshold": 10**9, "max_ack_pending": 5}}, {"first_seq": 10},
    {"consumer_limits": {"inactive_threshold": -5, "max_ack_pending": -5}}, {"subjects": ["o.x"]},
    {"subjects": ["*.x"]}, {"max_msgs": -5, "pedantic": True}, {"max_consumers": -5, "pedantic": True},
    {"max_msgs_per_subject": -5, "pedantic": True}, {"max_msg_size": -5, "pedantic": True},
    {"max_bytes": -5, "pedantic": True}, {"num_replicas": 6}, {"num_replicas": 5}, {"num_replicas": -1},
    {"sources": [{"name": "o"}, {"name": "o"}]}, {"sources": [{"name": "o"}, {"name": "o", "filter_subject": "x"}]},
    {"sources": [{"name": "o"}], "allow_msg_schedules": True}, {"sources": [{"name": "ORIGIN"}], "max_msg_size": 10},
    {"sources": [{"name": "o"}], "subjects": ["x"]}, {"sources": [{"name": "o"}], "duplicate_window": 10**9},
)  # fmt: skip


def stream_bodies() -> list[Body]:
    """Return bodies of STREAM.CREATE.S; a stream ORIGIN (o.>, max_msg_size 1000) exists."""
    bodies: list[Body] = list(SYNTAX)
    bodies += [{}, {"name": ""}, {"name": "T"}, {"name": "S", "pedantic": True}]
    for field in ("max_consumers", "max_msgs", "max_age", "max_msgs_per_subject", "max_msg_size"):
        bodies += _numbers(field)
    for field in ("duplicate_window", "first_seq", "num_replicas", "subject_delete_marker_ttl"):
        bodies += _numbers(field)
    # PostgreSQL counts no sequence beyond this; jetgate refuses it at once.
    beyond = [{"name": "S", "first_seq": n} for n in (2**63, 2**64 - 1)]
    bodies = [body for body in bodies if body not in beyond]
    sizes: tuple[Any, ...] = (0, -1, -2, 1, 2**31, 2**63, 1.5, "1", None, [])
    bodies += [{"name": "S", "max_bytes": n} for n in sizes]
    bodies += [{"name": "S", "consumer_limits": {"max_ack_pending": n}} for n in NUMBERS]
    bodies += [{"name": "S", "consumer_limits": {"inactive_threshold": n}} for n in NUMBERS]
    bodies += [{"name": "S", "subjects": subjects} for subjects in SUBJECT_LISTS]
    bodies += [{"name": "S", field: v} for field, values in ENUMS.items() for v in values]
    bodies += [{"name": "S", field: v} for field in FLAGS for v in (True, False, None, 1, "true")]
    bodies += _texts("description", "", "x", None, 5, "a\u0000b", "<b>&")
    for src, dest in TRANSFORMS:
        bodies.append({"name": "S", "subject_transform": {"src": src, "dest": dest}})
        bodies.append({"name": "S", "subjects": ["q"], "republish": {"src": src, "dest": dest}})
    for source in SOURCES:
        bodies += [{"name": "S", "mirror": source}, {"name": "S", "sources": [source]}]
    bodies += [{"name": "S", "mirror": {"name": "ORIGIN"}, **more} for more in MIRROR_CONFLICTS]
    bodies += [{"name": "S", **more} for more in COMBINATIONS]
    bodies += [json.dumps({"name": "S", "max_msgs": 5}, indent=2)]
    return bodies


STREAM_UPDATES: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
    ({}, {"max_msgs": 5}), ({}, {"description": "x"}), ({}, {"subjects": ["a", "b"]}), ({}, {"storage": "memory"}),
    ({"storage": "memory"}, {}), ({}, {"retention": "interest"}), ({}, {"retention": "workqueue"}),
    ({"retention": "workqueue"}, {"retention": "limits"}), ({"retention": "interest"}, {"retention": "limits"}),
    ({}, {"sealed": True}), ({"max_age": 10**9, "allow_rollup_hdrs": True}, {"sealed": True, "max_age": 10**9}),
    ({"deny_delete": True}, {}), ({"deny_purge": True}, {}), ({"deny_delete": True}, {"deny_delete": True}),
    ({"allow_msg_ttl": True}, {}), ({}, {"allow_msg_ttl": True}), ({}, {"allow_msg_counter": True}),
    ({"allow_msg_counter": True}, {}), ({"allow_msg_schedules": True}, {}), ({}, {"allow_msg_schedules": True}),
    ({"allow_msg_schedules": True}, {"allow_rollup_hdrs": True}), ({}, {"persist_mode": "async"}),
    ({"persist_mode": "async"}, {}), ({}, {"allow_atomic": True}), ({"allow_atomic": True}, {}),
    ({}, {"mirror": {"name": "ORIGIN"}}), ({"mirror": {"name": "ORIGIN"}}, {"subjects": ["p"]}),
    ({"mirror": {"name": "ORIGIN"}}, {"mirror": {"name": "other"}}), ({"mirror": {"name": "ORIGIN"}}, {}),
    ({"mirror": {"name": "ORIGIN"}}, {"mirror": {"name": "ORIGIN"}, "description": "x"}),
    ({"sources": [{"name": "o"}]}, {}), ({"sources": [{"name": "o"}]}, {"sources": [{"name": "p"}]}),
    ({}, {"num_replicas": 3}), ({}, {"subjects": ["o.x"]}), ({}, {"subjects": ["o.>"]}), ({}, {"first_seq": 7}),
    ({"first_seq": 7}, {}), ({}, {"max_consumers": 3}), ({"max_consumers": 3}, {"max_consumers": 5}),
    ({}, {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 2}),
    ({}, {"discard_new_per_subject": True}), ({}, {"compression": "s2"}), ({}, {"no_ack": True}),
    ({}, {"metadata": {"a": "b"}}), ({"metadata": {"a": "b"}}, {}), ({}, {"allow_batched": True}),
    ({}, {"consumer_limits": {"max_ack_pending": 5}}), ({}, {"duplicate_window": 10**9}), ({}, {"sealed": "x"}),
    ({}, {"name": "T"}), ({}, {"republish": {"dest": "r.>"}}), ({"republish": {"src": ">", "dest": "r.>"}}, {}),
    ({}, {"subject_transform": {"src": "a", "dest": "b"}}), ({}, {"placement": {"cluster": "x"}}),
    ({}, {"mirror_direct": True}), ({}, {"allow_direct": True}), ({}, {"max_bytes": 1000}), ({}, {"max_msgs": -5, "pedantic": True}),
)  # fmt: skip
"""Members of the created stream (without its name), and members of the update."""

STREAM_RECREATIONS: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
    ({}, {}), ({}, {"subjects": ["S"]}), ({}, {"max_msgs": -1}), ({}, {"max_msgs": 5}), ({}, {"description": "x"}),
    ({"metadata": {"a": "b"}}, {"metadata": {"a": "b", "_nats.ver": "0"}}), ({}, {"metadata": {"a": "b"}}),
    ({}, {"duplicate_window": 120 * 10**9}), ({"subjects": ["a", "b"]}, {"subjects": ["b", "a"]}),
    ({"mirror": {"name": "ORIGIN"}}, {"mirror": {"name": "ORIGIN"}}), ({}, {"placement": {}}),
    ({"sources": [{"name": "o"}]}, {"sources": [{"name": "o"}]}), ({}, {"metadata": {"_nats.req.level": "7"}}),
)  # fmt: skip

CONSUMER_STREAMS: dict[str, dict[str, object]] = {
    "LIMITS": {"subjects": ["l.>"]},
    "BOUNDED": {
        "subjects": ["b.>"],
        "consumer_limits": {"inactive_threshold": 10**9, "max_ack_pending": 7},
    },
    "QUEUE": {"subjects": ["q.>"], "retention": "workqueue"},
    "INTEREST": {"subjects": ["i.>"], "retention": "interest"},
}

CONSUMER_ENUMS: dict[str, tuple[object, ...]] = {
    "deliver_policy": (
        "all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject", "undefined", "ALL", "", None, 1,
    ),
    "ack_policy": ("none", "all", "explicit", "flow_control", "Explicit", "", None, 3),
    "replay_policy": ("instant", "original", "x", None, ""),
    "priority_policy": ("none", "overflow", "pinned_client", "prioritized", "x", "", None),
}  # fmt: skip
CONSUMER_NUMBERS = (
    "opt_start_seq", "ack_wait", "max_deliver", "rate_limit_bps", "max_waiting", "max_ack_pending", "max_batch",
    "max_expires", "max_bytes", "idle_heartbeat", "inactive_threshold", "num_replicas", "priority_timeout",
)  # fmt: skip
CONSUMER_FLAGS = ("flow_control", "headers_only", "mem_storage")
T1, T2 = "2024-05-06T07:08:09.123456789Z", "1970-01-01T00:00:00Z"

CONSUMER_CONFIGS: tuple[dict[str, object], ...] = (
    {}, {"durable_name": "C"}, {"durable_name": "D"}, {"name": "C"}, {"name": "D"}, {"durable_name": "C", "name": "D"},
    {"description": "d" * 4096}, {"description": "d" * 4097}, {"filter_subject": "l.a"}, {"filter_subject": "zzz"},
    {"filter_subject": "l..a"}, {"filter_subject": "l a"}, {"filter_subjects": ["l.a", "l.b"]},
    {"filter_subjects": ["l.a", "l.*"]}, {"filter_subjects": ["l.a", "l.a"]}, {"filter_subjects": ["l.a", ""]},
    {"filter_subjects": [None]}, {"filter_subjects": []}, {"filter_subjects": ["l..a"]}, {"filter_subjects": [5]},
    {"filter_subject": "l.a", "filter_subjects": ["l.b"]}, {"filter_subjects": ["l.a.*", "l.*.b"]},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, {"deliver_policy": "by_start_time", "opt_start_time": T1},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 3, "opt_start_time": T1},
    {"deliver_policy": "by_start_time", "opt_start_time": T1, "opt_start_seq": 3},
    {"deliver_policy": "by_start_time", "opt_start_time": T2}, {"opt_start_time": T1}, {"opt_start_seq": 3},
    {"deliver_policy": "last", "opt_start_seq": 3}, {"deliver_policy": "last", "opt_start_time": T1},
    {"deliver_policy": "new", "opt_start_seq": 3}, {"deliver_policy": "new", "opt_start_time": T1},
    {"deliver_policy": "last_per_subject", "filter_subject": "l.>"},
    {"deliver_policy": "last_per_subject", "filter_subjects": ["l.a", "l.b"]},
    {"deliver_policy": "last_per_subject", "opt_start_seq": 3}, {"deliver_policy": "last_per_subject", "opt_start_time": T1},
    {"ack_policy": "explicit", "backoff": [10**9, 2 * 10**9]}, {"ack_policy": "explicit", "backoff": [10**9], "max_deliver": 1},
    {"ack_policy": "explicit", "backoff": [10**9, 1], "max_deliver": 1}, {"backoff": [-1]}, {"backoff": [0]}, {"backoff": []},
    {"ack_policy": "explicit", "backoff": [5], "ack_wait": 7, "pedantic": True}, {"backoff": [None]}, {"backoff": [1.5]},
    {"backoff": ["x"]}, {"sample_freq": "50"}, {"sample_freq": "50%"}, {"sample_freq": "x"}, {"sample_freq": "-1"},
    {"sample_freq": "99999999999999999999"}, {"sample_freq": "5%%"}, {"sample_freq": "%"}, {"sample_freq": "+5"},
    {"sample_freq": 'a"b'}, {"deliver_subject": "d"}, {"deliver_subject": "d.*"}, {"deliver_subject": "d..x"},
    {"deliver_subject": "l.x"}, {"deliver_subject": "d x"}, {"deliver_subject": "d", "max_waiting": 5},
    {"deliver_subject": "d", "max_ack_pending": 5}, {"deliver_subject": "d", "ack_policy": "explicit", "max_ack_pending": 5},
    {"deliver_subject": "d", "idle_heartbeat": 10**7}, {"deliver_subject": "d", "idle_heartbeat": 10**9},
    {"deliver_subject": "d", "flow_control": True}, {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": 10**9},
    {"deliver_subject": "d", "deliver_group": "g"}, {"deliver_group": "g"}, {"deliver_subject": "d", "rate_limit_bps": 1000},
    {"deliver_subject": "d", "ack_policy": "flow_control"}, {"ack_policy": "flow_control"},
    {"deliver_subject": "d", "ack_policy": "flow_control", "ack_wait": 5}, {"deliver_subject": "d", "ack_policy": "flow_control", "max_deliver": 3},
    {"deliver_subject": "d", "ack_policy": "flow_control", "max_ack_pending": -1},
    {"deliver_subject": "d", "ack_policy": "flow_control", "pedantic": True}, {"deliver_subject": "d", "max_batch": 4, "max_expires": 5},
    {"metadata": {"k": "v" * (128 * 1024)}}, {"metadata": {"a": "b", "_nats.ver": "0"}}, {"metadata": {"_nats.req.level": "9"}},
    {"priority_policy": "overflow", "priority_groups": ["g"]}, {"priority_policy": "overflow", "priority_groups": [""]},
    {"priority_policy": "overflow", "priority_groups": ["a b"]}, {"priority_policy": "overflow", "priority_groups": ["g" * 17]},
    {"priority_policy": "pinned_client", "priority_groups": ["g", "h"]}, {"priority_groups": ["g"]}, {"priority_timeout": 5},
    {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": 10**9},
    {"priority_policy": "overflow", "priority_groups": ["g"], "deliver_subject": "d"}, {"pause_until": "2020-01-01T00:00:00Z"},
    {"pause_until": "2120-01-01T00:00:00Z"}, {"ack_policy": "explicit", "inactive_threshold": 5}, {"opt_start_time": "x"},
    {"durable_name": "C", "inactive_threshold": 10**9}, {"max_deliver": -7, "pedantic": True}, {"max_batch": -1, "pedantic": True},
    {"max_waiting": -1, "pedantic": True}, {"max_ack_pending": -7, "pedantic": True}, {"max_expires": -1, "pedantic": True},
    {"idle_heartbeat": -1, "pedantic": True}, {"inactive_threshold": -1, "pedantic": True}, {"priority_timeout": -1, "pedantic": True},
    {"max_bytes": -1, "pedantic": True}, {"pedantic": True}, {"ack_policy": "explicit", "max_ack_pending": 8},
    {"ack_policy": "explicit", "max_ack_pending": -1}, {"ack_policy": "explicit", "inactive_threshold": 2 * 10**9},
    {"ack_policy": "explicit", "filter_subject": "q.a"}, {"ack_policy": "explicit", "deliver_policy": "new"}, {"ack_policy": "all"},
    {"durable_name": "a.b"}, {"durable_name": "a/b"}, {"durable_name": "a b"}, {"name": "a>b"}, {"foo": 1},
    {"opt_start_time": "2024-01-01"}, {"opt_start_time": "2024-13-01T00:00:00Z"}, {"opt_start_time": "2024-02-30T00:00:00Z"},
    {"opt_start_time": "2024-01-01T25:00:00Z"}, {"opt_start_time": "2024-01-01T00:00:00"}, {"opt_start_time": ""}, {"opt_start_time": 5},
    {"opt_start_time": "2024-01-01T00:00:00+0200"}, {"opt_start_time": "2024-01-01T00:00:00Zx"}, {"opt_start_time": None},
)  # fmt: skip


def consumer_configs() -> list[dict[str, object]]:
    """Return configurations of consumer create requests; `pedantic` belongs to the request."""
    configs = list(CONSUMER_CONFIGS)
    for field in CONSUMER_NUMBERS:
        configs += [{field: number} for number in NUMBERS]
    for field in ("max_ack_pending", "ack_wait", "max_deliver"):
        configs += [{"ack_policy": "explicit", field: number} for number in NUMBERS]
    configs += [{field: v} for field, values in CONSUMER_ENUMS.items() for v in values]
    configs += [{field: v} for field in CONSUMER_FLAGS for v in (True, False, None, 1)]
    return configs


CONSUMER_UPDATES: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
    ({}, {}), ({}, {"description": "x"}), ({}, {"deliver_policy": "new"}), ({}, {"ack_policy": "explicit"}),
    ({"ack_policy": "explicit"}, {"ack_policy": "explicit", "ack_wait": 10**9}), ({}, {"mem_storage": True}),
    ({}, {"replay_policy": "original"}), ({}, {"max_waiting": 5}), ({}, {"filter_subject": "l.a"}), ({}, {"max_deliver": 5}),
    ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 4}),
    ({"deliver_policy": "by_start_time", "opt_start_time": T1}, {"deliver_policy": "by_start_time", "opt_start_time": T2}),
    ({"deliver_policy": "by_start_time", "opt_start_time": T1}, {"deliver_policy": "by_start_time", "opt_start_time": T1}),
    ({}, {"deliver_subject": "d"}), ({"deliver_subject": "d"}, {}), ({"deliver_subject": "d"}, {"deliver_subject": "e"}),
    ({"deliver_subject": "d", "idle_heartbeat": 10**9}, {"deliver_subject": "d"}), ({}, {"inactive_threshold": 10**9}),
    ({"deliver_subject": "d", "idle_heartbeat": 10**9, "flow_control": True}, {"deliver_subject": "d", "idle_heartbeat": 10**9}),
    ({}, {"metadata": {"a": "b"}}), ({"metadata": {"a": "b"}}, {}), ({}, {"headers_only": True}), ({}, {"max_batch": 5}),
    ({"ack_policy": "explicit"}, {"ack_policy": "explicit", "backoff": [1, 2], "max_deliver": 1}),
    ({}, {"sample_freq": "10"}), ({}, {"priority_policy": "overflow", "priority_groups": ["g"]}), ({}, {"num_replicas": 1}),
    ({}, {"pause_until": "2120-01-01T00:00:00Z"}), ({"pause_until": "2120-01-01T00:00:00Z"}, {}), ({}, {"deliver_group": "g"}),
    ({}, {"direct": True, "deliver_subject": "d"}), ({}, {"filter_subjects": ["l.a", "l.b"]}), ({}, {"max_ack_pending": 5}),
)  # fmt: skip
