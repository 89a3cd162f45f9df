"""Counters: what a message becomes, and what it is refused for."""

# Subject: counters

import json
from typing import Any

import pytest

from core.errors import ApiError
from core.model.counter import read_sources, read_value, write_sources
from core.model.gojson import JsonError
from core.rules.stream import headers as h
from core.rules.stream.config.validation import check_create
from core.rules.stream.counters import Counting
from core.rules.stream.plans.planner import decide
from core.rules.stream.plans.sourced import SourcedBatch, plan_sourced
from core.rules.stream.preconditions import Preconditions
from tests.unit.rules.stream.support import NOW, Stream, block, columns, config, message

SECOND = 1_000_000_000


class Counters(Stream):
    """A stream of counters that is told what it has stored, as a runner does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_msg_counter": True, **settings})
        self.newest: dict[bytes, tuple[bytes, bytes]] = {}
        self.more: dict[str, Any] = {}

    def values(self, *messages: tuple[bytes, bytes, bytes]) -> list[Any]:
        """Publish one batch; return the totals acknowledged, or the numbered errors."""
        plan = decide(self.machine, columns(*messages), self.now, self.preconditions())
        self._apply(plan)
        return [
            answer["error"]["err_code"] if "error" in answer else answer["val"]
            for answer in (json.loads(body) for _, body in plan.answers)
        ]

    def copy(self, run: SourcedBatch) -> None:
        """Store what an origin sent."""
        self._apply(
            plan_sourced(self.machine, [run], self.now, self.preconditions(), mirrors=False).plan
        )

    def preconditions(self) -> Preconditions:
        return Preconditions(self.newest, **self.more)

    def _apply(self, plan: Any) -> None:
        self.plan = plan
        self.machine.apply(plan)
        segment = plan.segment
        if segment is not None:
            headers = segment.headers or [b""] * len(segment)
            rows = zip(headers, segment.payloads, strict=True)
            self.newest.update(zip(segment.subjects, rows, strict=True))

    def stored(self) -> list[tuple[bytes, bytes]]:
        """Header blocks and payloads of the last plan."""
        segment = self.plan.segment
        assert segment is not None
        assert segment.headers is not None
        return [(b or b"", p) for b, p in zip(segment.headers, segment.payloads, strict=True)]


def incr(subject: str, value: str, **headers: str) -> tuple[bytes, bytes, bytes]:
    return message(subject, b"", Nats_Incr=value, **headers)


def copied(origin: str, *told: tuple[str, str, str], **headers: str) -> SourcedBatch:
    """Messages of an origin: stored subject, subject there, total there."""
    run = SourcedBatch(origin, "", len(told))
    gathered = []
    for place, (subject, there, total) in enumerate(told, 1):
        source = f"{origin} {place} > > {there}"
        blocks = {"Nats_Incr": "1", "Nats_Stream_Source": source, **headers}
        gathered.append(message(subject, b'{"val":"%s"}' % total.encode(), **blocks))
        run.seqs.append(place)
        run.times.append(NOW)
    run.columns = columns(*gathered)
    run.columns.replies = []
    return run


def test_increments_of_a_batch_build_on_each_other_and_on_what_is_stored() -> None:
    stream = Counters()

    first = stream.values(incr("a", "1"), incr("b", "7"), incr("a", "+2"))
    second = stream.values(incr("a", "-10"), incr("b", "x"), incr("b", "0"), incr("c", "-0"))

    assert first == ["1", "7", "3"]
    assert second == ["-7", 10171, "7", "0"]
    assert [p for _, p in stream.stored()] == [b'{"val":"-7"}', b'{"val":"7"}', b'{"val":"0"}']


def test_a_total_of_any_length_is_exact() -> None:
    stream = Counters()
    nines = "9" * 60_000

    values = stream.values(incr("a", nines), incr("a", "1"), incr("a", "-" + nines))

    assert values == [nines, "1" + "0" * 60_000, "1"]


def test_without_headers_nothing_is_stored() -> None:
    stream = Counters()

    assert stream.values(message("a", b"x"), message("a")) == [10169, 10169]
    assert stream.machine.last_seq == 0


def test_a_counter_with_unread_values_is_never_taken_for_zero() -> None:
    stream = Counters()
    stream.values(incr("a", "1"))
    stream.newest = {}

    assert stream.values(incr("a", "1"), incr("b", "1")) == [10172, "1"]


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"val":"5"}', "6"),
        (b' {"x":[1],"VAL":"-5"} ', "-4"),
        (b'{"val":"12ab"}', "13"),
        (b'{"val":"ab"}', "1"),
        (b'{"val":null}', "1"),
        (b"{}", "1"),
        (b"null", "1"),
        (b'{"val":5}', 10172),
        (b'"5"', 10172),
        (b"", 10172),
        (b'{"val":"1"}{}', 10172),
    ],
)
def test_a_stored_total_is_read_as_the_reference_reads_it(payload: bytes, value: object) -> None:
    stream = Counters()
    stream.values(incr("a", "1"))
    stream.newest[b"a"] = (b"", payload)

    assert stream.values(incr("a", "1")) == [value]


def test_sources_are_read_as_the_reference_reads_them() -> None:
    text = b'{"z":{"b":null,"a":"<2>"},"n":null,"z2":{}}'

    assert write_sources(read_sources(text)) == (
        b'{"n":null,"z":{"a":"\\u003c2\\u003e","b":""},"z2":{}}'
    )
    assert read_sources(b"null") == {}
    for bad in (b"[]", b'{"s":1}', b'{"s":{"c":1}}', b"{} {}", b"{", b""):
        with pytest.raises(JsonError):
            read_sources(bad)
    with pytest.raises(JsonError):
        read_value(b'{"val":["1"]}')


def test_a_claimed_source_counts_from_the_next_message_on() -> None:
    stream = Counters()
    claim = '{"o":{"x":"1"}}'

    values = stream.values(
        incr("a", "1", Nats_Counter_Sources=claim),
        incr("a", "1"),
        incr("b", "1", Nats_Counter_Sources="{"),
        incr("b", "1"),
    )

    assert values == ["1", "2", "1", 10172]
    assert h.find(stream.stored()[1][0], h.COUNTER_SOURCES) == claim.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nA: 1\r\nN: new\r\n\r\n"),
        (b"NATS/1.0\r\nN: old\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nN: new\r\nA: 1\r\n\r\n"),
        (b"NATS/1.0\r\nN:old\r\nN: 2\r\n\r\n", b"NATS/1.0\r\nN:new\r\nN: 2\r\n\r\n"),
        (b"NATS/1.0\r\nN:  old\r\n\r\n", b"NATS/1.0\r\nN: new\r\n\r\n"),
        (b"NATS/1.0\r\nNN: 1\r\n\r\n", b"NATS/1.0\r\nNN: 1\r\nN: new\r\n\r\n"),
    ],
)
def test_a_header_is_changed_in_its_place_or_added(before: bytes, after: bytes) -> None:
    assert h.with_header(before, b"N", b"new") == after


def test_copies_add_what_their_origin_has_more_than_last_time() -> None:
    stream = Counters()
    stream.values(incr("sum", "100"))

    stream.copy(copied("A", ("sum", "a.x", "5"), ("sum", "a.y", "7"), ("sum", "a.x", "3")))

    assert [p for _, p in stream.stored()] == [b'{"val":"%d"}' % n for n in (105, 112, 110)]
    last = stream.stored()[-1][0]
    assert h.find(last, h.INCREMENT) == b"-2"
    assert h.find(last, h.COUNTER_SOURCES) == b'{"A":{"a.x":"3","a.y":"7"}}'
    assert stream.values(incr("sum", "1")) == ["111"]
    assert h.find(stream.stored()[0][0], h.COUNTER_SOURCES) == b'{"A":{"a.x":"3","a.y":"7"}}'


@pytest.mark.parametrize("bad", ["", "x"])
def test_a_copy_that_does_not_count_is_left_out(bad: str) -> None:
    stream = Counters()
    run = copied("A", ("a", "a", "5"), ("a", "a", "6"), ("a", "a", "7"))
    run.columns.headers[1] = block(Nats_Incr=bad, Nats_Stream_Source="A 2 > > a")

    made = plan_sourced(stream.machine, [run], NOW, stream.preconditions(), mirrors=False)

    assert (made.plan.last_seq, made.stalled) == (2, {})
    assert made.left_out[0, 2].err_code == (10171 if bad else 10169)
    assert made.plan.positions[0].seq == 3


def test_a_broken_total_holds_up_the_copies() -> None:
    """Once it is deleted they count; left out, they would never."""
    stream = Counters()
    stream.values(incr("a", "5"))
    stream.newest[b"a"] = (b"", b"broken")

    run = copied("A", ("b", "a", "5"), ("a", "a", "6"))
    made = plan_sourced(stream.machine, [run], NOW, stream.preconditions(), mirrors=False)

    assert made.left_out == {}
    assert made.stalled[0].err_code == 10172


def test_a_copy_that_replaces_everything_leaves_no_other_total() -> None:
    stream = Counters(allow_rollup_hdrs=True)
    stream.values(incr("a", "5"), incr("b", "5"))
    run = copied("O", ("a", "x", "1"), ("b", "y", "1"), ("a", "x", "3"))
    run.columns.headers[0] = block(Nats_Incr="1", Nats_Stream_Source="O 1 > > x", Nats_Rollup="all")

    stream.copy(run)

    assert [p for _, p in stream.stored()] == [b'{"val":"%d"}' % n for n in (6, 1, 8)]
    assert stream.machine.msgs == 3


def test_a_message_may_grow_too_large() -> None:
    stream = Counters()
    stream.more["max_payload"] = 65

    assert stream.values(incr("a", "9" * 15), incr("a", "9" * 25), incr("a", "1")) == [
        "9" * 15,
        10054,
        "1" + "0" * 15,
    ]
    counting = Counting(lambda _: 0, {}, -1, 1 << 20)
    origin = b"O 1 > > " + b"s" * 66_000
    found = {h.INCREMENT: b"1", h.STREAM_SOURCE: origin}
    with pytest.raises(ApiError) as caught:
        counting.add(b"a", block(Nats_Incr="1"), b'{"val":"1"}', found)
    assert caught.value.err_code == 10097


def test_totals_need_room_too() -> None:
    """The last message that is taken may go beyond what the node has left."""
    stream = Counters()
    stream.values(incr("a", "9" * 100))
    stream.more["storage_left"] = 150

    assert stream.values(incr("a", "-1"), incr("a", "-1")) == ["9" * 99 + "8", 10023]


def test_a_failed_increment_does_not_make_its_id_known() -> None:
    stream = Counters()

    assert stream.values(
        message("a", Nats_Msg_Id="i"), incr("a", "1", Nats_Msg_Id="i"), incr("a", "1")
    ) == [10169, "1", "2"]


def test_markers_are_no_increments() -> None:
    wanted = config(
        allow_msg_counter=True,
        subject_delete_marker_ttl=SECOND,
        allow_rollup_hdrs=False,
        metadata={"jetgate.markers": "Purge"},
    )

    with pytest.raises(ApiError, match="cannot be used with message counters"):
        check_create(wanted, {}, name="S")


@pytest.mark.parametrize(
    ("limits", "values"),
    [
        ({"max_msgs": 2}, ["5", "5", "5", "5", "10", "5"]),
        ({"max_msgs": 3, "max_msgs_per_subject": 1}, ["5", "5", "5", "10", "15", "10"]),
        ({"max_bytes": 50}, ["5"] * 6),
        ({"max_bytes": 1000}, ["5", "5", "5", "10", "15", "10"]),
    ],
)
def test_messages_that_a_batch_pushes_out_do_not_count_within_it(
    limits: dict[str, int], values: list[str]
) -> None:
    together, apart = Counters(**limits), Counters(**limits)
    messages = [incr(subject, "5") for subject in "abcaab"]

    assert together.values(*messages) == values
    assert [value for each in messages for value in apart.values(each)] == values
    assert together.machine.msgs == apart.machine.msgs
