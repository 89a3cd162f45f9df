"""What a publish into a stream is refused for: codes, texts, order.

The order was read off the reference server, pair by pair.
"""

# Subject: publish

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.stream import Discard, Storage
from core.protocol.messages import MessageColumns
from core.rules.stream.plans.planner import decide
from tests.support.streams import stored_subjects
from tests.unit.rules.stream.support import SECOND, Stream, columns, message

LONG = {"X": "y" * 300}
# Header by header, each failing alone, in the order of the checks; long headers fail first.
FAILING: list[tuple[dict[str, str], int]] = [
    (LONG, 10054),
    ({"Nats-Batch-Id": "b"}, 10174),
    ({"Nats-Incr": "1"}, 10168),
    ({"Nats-Expected-Stream": "T"}, 10060),
    ({"Nats-TTL": "5"}, 10166),
    ({"Nats-Expected-Last-Subject-Sequence-Subject": "a.2"}, 10193),
    ({"Nats-Expected-Last-Sequence": "7"}, 10071),
    ({"Nats-Schedule": "@every 1s"}, 10188),
    ({"Nats-Stream-Source": "x"}, 10227),
    ({"Nats-Msg-Id": "one"}, 0),
    ({"Nats-Expected-Last-Msg-Id": "none"}, 10070),
    ({"Nats-Rollup": "x"}, 10111),
    ({"Nats-TTL": "x"}, 10165),
]


def _code(outcome: object) -> int:
    assert isinstance(outcome, tuple)
    return 0 if outcome[0] == "duplicate" else outcome[1]


PAIRS = [
    (first, later)
    for first, later in itertools.combinations(range(len(FAILING)), 2)
    if FAILING[first][0].keys() != FAILING[later][0].keys()
]


@pytest.mark.parametrize(("first", "later"), PAIRS)
def test_of_two_failing_checks_the_earlier_one_speaks(first: int, later: int) -> None:
    (one, code), (two, _) = FAILING[first], FAILING[later]
    stream = Stream(max_msg_size=200, allow_rollup_hdrs=False)
    stream.one("a.1", b"x", **{"Nats-Msg-Id": "one"})

    assert _code(stream.one("a.1", b"", **{**two, **one})) == code


def test_a_message_without_headers_gets_the_next_sequence() -> None:
    stream = Stream()

    assert stream.publish(message("a"), message("b")) == [1, 2]


def test_the_first_sequence_of_a_stream_can_be_configured() -> None:
    stream = Stream(first_seq=100)

    assert stream.one("a") == 100
    assert stream.machine.first_seq == 100


def test_times_of_a_batch_increase_strictly_even_when_the_clock_goes_back() -> None:
    stream = Stream()
    stream.publish(message("a"), message("a"))
    last = stream.machine.last_ts
    stream.now -= SECOND

    stream.one("a")

    assert stream.machine.last_ts == last + 1


def test_a_wrong_stream_name_is_refused() -> None:
    assert Stream().error("a", Nats_Expected_Stream="T") == (
        400, 10060, "expected stream does not match",
    )  # fmt: skip


_ids = st.sampled_from(["", "i", "j", "k"])
_streams = st.sampled_from(["", "S", "T"])


@given(st.lists(st.lists(st.tuples(_ids, _streams), min_size=1, max_size=6), max_size=4))
def test_an_id_and_a_stream_name_mean_the_same_in_any_order(
    batches: list[list[tuple[str, str]]],
) -> None:
    usual, other = Stream(), Stream()
    for batch in batches:
        pairs = [{"Nats_Msg_Id": msg_id, "Nats_Expected_Stream": name} for msg_id, name in batch]
        named = [{name: value for name, value in pair.items() if value} for pair in pairs]
        turned = [dict([*reversed(pair.items()), ("A", "b")]) for pair in named]

        outcome = usual.publish(*[message("a", **headers) for headers in named])

        assert outcome == other.publish(*[message("a", **headers) for headers in turned])
        assert usual.machine.last_msg_id == other.machine.last_msg_id
        assert len(usual.machine.dedup) == len(other.machine.dedup)


def test_a_wrong_last_sequence_is_refused_with_the_right_one() -> None:
    stream = Stream()
    stream.one("a")

    assert stream.error("a", Nats_Expected_Last_Sequence="7") == (
        400, 10071, "wrong last sequence: 1",
    )  # fmt: skip


def test_the_last_sequence_counts_messages_of_the_same_batch() -> None:
    stream = Stream()

    outcome = stream.publish(message("a"), message("a", Nats_Expected_Last_Sequence="1"))

    assert outcome == [1, 2]


def test_of_racing_writers_in_one_batch_exactly_one_wins() -> None:
    stream = Stream()
    writers = [message("a", b"%d" % n, Nats_Expected_Last_Sequence="0") for n in range(5)]

    outcome = stream.publish(*writers)

    assert outcome[0] == 1
    assert [_code(answer) for answer in outcome[1:]] == [10071] * 4


def test_expecting_sequence_zero_of_a_subject_means_that_it_has_no_message() -> None:
    stream = Stream()
    stream.one("a")

    assert stream.one("b", Nats_Expected_Last_Subject_Sequence="0") == 2
    assert stream.error("a", Nats_Expected_Last_Subject_Sequence="0")[1] == 10071


def test_the_sequence_of_a_subject_is_that_of_its_newest_message_in_the_batch() -> None:
    stream = Stream(max_msgs_per_subject=1)
    first = message("a", Nats_Expected_Last_Subject_Sequence="0")
    second = message("a", Nats_Expected_Last_Subject_Sequence="1")
    stale = message("a", Nats_Expected_Last_Subject_Sequence="1")

    outcome = stream.publish(first, second, message("b"), stale)

    assert outcome[:3] == [1, 2, 3]
    assert outcome[3] == (400, 10071, "wrong last sequence: 2")


def test_the_expected_sequence_may_be_that_of_other_subjects() -> None:
    stream = Stream()
    stream.publish(message("a.1"), message("a.2"), message("b"))
    other = {"Nats-Expected-Last-Subject-Sequence-Subject": "a.*"}

    assert stream.one("c", **{"Nats-Expected-Last-Subject-Sequence": "2", **other}) == 4
    assert stream.error("c", **{"Nats-Expected-Last-Subject-Sequence": "3", **other})[1] == 10071


def test_another_subject_without_a_sequence_is_refused() -> None:
    header = {"Nats-Expected-Last-Subject-Sequence-Subject": "a"}

    assert Stream().error("a", **header) == (
        400, 10193, "missing sequence for expected last sequence per subject",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["x", "+1", "1 ", "-1", "18446744073709551615", "9" * 30])
def test_a_sequence_that_is_no_number_matches_nothing(text: str) -> None:
    stream = Stream()
    stream.one("a")

    assert stream.error("a", Nats_Expected_Last_Sequence=text)[1] == 10071
    assert stream.error("a", Nats_Expected_Last_Subject_Sequence=text)[1] == 10071


@pytest.mark.parametrize(
    "name",
    [
        "Nats-Expected-Stream", "Nats-Expected-Last-Sequence", "Nats-Msg-Id", "Nats-Rollup",
        "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Msg-Id", "Nats-TTL",
        "Nats-Incr", "Nats-Schedule", "Nats-Batch-Id", "Nats-Stream-Source",
    ],
)  # fmt: skip
def test_an_empty_value_is_no_value(name: str) -> None:
    stream = Stream(allow_rollup_hdrs=False)
    stream.one("a")

    assert stream.one("a", **{name: ""}) == 2
    assert stream.one("a", **{name: "  "}) == 3


def test_a_duplicate_is_answered_with_the_first_sequence() -> None:
    stream = Stream()
    stream.one("a")
    stream.one("a", Nats_Msg_Id="i")

    plan = decide(stream.machine, columns(message("b", Nats_Msg_Id="i")), stream.now)

    assert plan.answers == [(b"reply.0", b'{"stream":"S","seq":2,"duplicate": true}')]
    assert not plan.build().changes_head


def test_a_duplicate_within_a_batch_is_found() -> None:
    stream = Stream()

    outcome = stream.publish(message("a", Nats_Msg_Id="i"), message("a", Nats_Msg_Id="i"))

    assert outcome == [1, ("duplicate", 1)]
    assert stream.written == [1]


def test_a_refused_message_does_not_use_up_its_id() -> None:
    stream = Stream()
    stream.error("a", Nats_Msg_Id="i", Nats_TTL="x")

    assert stream.one("a", Nats_Msg_Id="i") == 1


def test_an_id_of_a_plan_that_was_lost_does_not_block_its_retry() -> None:
    stream = Stream()
    decide(stream.machine, columns(message("a", Nats_Msg_Id="i")), stream.now)

    assert stream.one("a", Nats_Msg_Id="i") == 1


def test_ids_mean_nothing_without_a_duplicate_window() -> None:
    stream = Stream(duplicate_window=0)

    outcome = stream.publish(message("a", Nats_Msg_Id="i"), message("a", Nats_Msg_Id="i"))

    assert outcome == [1, 2]
    assert len(stream.machine.dedup) == 0


def test_an_id_is_free_again_after_the_window() -> None:
    stream = Stream(duplicate_window=2 * SECOND)
    stream.one("a", Nats_Msg_Id="i")
    stream.now += 2 * SECOND - 1
    assert stream.one("a", Nats_Msg_Id="i") == ("duplicate", 1)
    stream.now += 1

    assert stream.one("a", Nats_Msg_Id="i") == 2


def test_names_of_headers_are_matched_exactly() -> None:
    stream = Stream()
    stream.one("a", **{"nats-msg-id": "i", "X-Nats-Msg-Id": "i"})

    assert stream.one("a", **{"nats-msg-id": "i", "X-Nats-Msg-Id": "i"}) == 2


def test_a_wrong_last_message_id_is_refused_with_the_right_one() -> None:
    stream = Stream()
    stream.one("a", Nats_Msg_Id="one")

    assert stream.error("a", Nats_Expected_Last_Msg_Id="two") == (
        400, 10070, "wrong last msg ID: one",
    )  # fmt: skip
    assert stream.one("a", Nats_Expected_Last_Msg_Id="one", Nats_Msg_Id="two") == 2


@pytest.mark.parametrize("headers", [{}, {"X": "y"}])
def test_a_message_without_id_clears_the_last_message_id(headers: dict[str, str]) -> None:
    stream = Stream()
    stream.one("a", Nats_Msg_Id="one")
    stream.one("a", **headers)

    assert stream.error("a", Nats_Expected_Last_Msg_Id="one")[2] == "wrong last msg ID: "


@pytest.mark.parametrize("settings", [{"allow_rollup_hdrs": False}, {"deny_purge": True}])
def test_a_roll_up_must_be_allowed(settings: dict[str, bool]) -> None:
    assert Stream(**settings).error("a", Nats_Rollup="sub") == (500, 10111, "rollup not permitted")


def test_an_unknown_kind_of_roll_up_is_refused() -> None:
    assert Stream().error("a", Nats_Rollup='X"') == (500, 10111, 'rollup value invalid: "x""')


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("1", 10168, "message counters is disabled"),
        ("-25", 10168, "message counters is disabled"),
        ("1.5", 10171, "message counter increment is invalid"),
    ],
)
def test_counters_are_refused(value: str, code: int, text: str) -> None:
    assert Stream().error("a", Nats_Incr=value) == (400, code, text)


@pytest.mark.parametrize("value", ["1s", "1", "1.5s", "never", "NEVER", "1h1m", "9" * 18])
def test_a_ttl_is_refused_where_it_would_not_be_kept(value: str) -> None:
    assert Stream().error("a", Nats_TTL=value) == (400, 10166, "per-message TTL is disabled")


@pytest.mark.parametrize(
    "value", ["0", "0s", "500ms", "-1", "abc", "5.5", "+5", "5 ", "9223372036854775808", "1s1"]
)
def test_an_invalid_ttl_is_refused(value: str) -> None:
    assert Stream().error("a", Nats_TTL=value) == (400, 10165, "invalid per-message TTL")


def test_the_largest_message_fits_exactly() -> None:
    stream = Stream(max_msg_size=20)

    assert stream.one("a", b"x" * 20) == 1
    assert stream.error("a", b"x" * 21) == (
        400, 10054, "message size exceeds maximum allowed",
    )  # fmt: skip


def test_headers_count_towards_the_message_size() -> None:
    stream = Stream(max_msg_size=20)

    assert stream.one("a", b"12", A="b") == 1
    assert stream.error("a", b"123", A="b")[1] == 10054


def test_headers_have_a_limit_of_their_own() -> None:
    assert Stream().error("a", X="y" * 65_536) == (
        400, 10097, "header size exceeds maximum allowed of 64k",
    )  # fmt: skip


@pytest.mark.parametrize("headers", [{}, {"X": "y"}])
def test_a_record_of_more_than_32_mib_is_refused(headers: dict[str, str]) -> None:
    payload = bytes((32 << 20) - 20)

    assert Stream().error("a", payload, **headers) == (503, 10077, "message too large")


def test_a_sealed_stream_takes_nothing() -> None:
    error = (400, 10109, "invalid operation on sealed stream")

    assert Stream(sealed=True).error("a") == error
    assert Stream(sealed=True).error("a", b"", Nats_Incr="x") == error


def test_a_subject_longer_than_a_row_may_have_is_refused_alone() -> None:
    stream = Stream()

    outcome = stream.publish(message("a"), (b"a" * 65536, b"", b""), message("b"))

    assert (outcome[0], outcome[2]) == (1, 2)
    assert outcome[1][1] == 10003


def test_a_batch_with_refusals_answers_in_order() -> None:
    stream = Stream()

    outcome = stream.publish(message("a"), message("a", Nats_Expected_Stream="T"), message("b"))

    assert (outcome[0], outcome[2]) == (1, 2)
    assert _code(outcome[1]) == 10060
    assert stored_subjects(stream.plan) == [b"a", b"b"]


def test_a_message_without_reply_is_stored_and_not_answered() -> None:
    stream = Stream()
    batch: MessageColumns = columns(message("a", Nats_Incr="1"), message("a", X="y"))
    batch.replies = [b"", b""]

    plan = decide(stream.machine, batch, stream.now)

    assert plan.answers == []
    assert plan.last_seq == 1


def test_texts_of_errors_are_escaped_as_the_reference_does_it() -> None:
    stream = Stream(name='S"x')
    batch = columns(message("a", Nats_Rollup='<"\té&>'))

    plan = decide(stream.machine, batch, stream.now)

    assert plan.answers == [
        (
            b"reply.0",
            b'{"error":{"code":500,"err_code":10111,"description":"rollup value invalid: '
            b'\\"\\u003c\\"\\u0009\xc3\xa9\\u0026\\u003e\\""},"stream":"S\\"x","seq":0}',
        )
    ]


# -- discard new ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("storage", "frame"), [(Storage.FILE, 30), (Storage.MEMORY, 16)])
def test_a_full_stream_refuses_at_exactly_max_bytes(storage: Storage, frame: int) -> None:
    each = frame + len("a.1") + 10
    stream = Stream(storage=storage, discard=Discard.NEW, max_bytes=3 * each)
    batch = [message("a.1", b"x" * 10)] * 4

    outcome = stream.publish(*batch)

    assert outcome == [1, 2, 3, (503, 10077, "maximum bytes exceeded")]
    assert stream.machine.bytes == 3 * each


def test_a_full_stream_refuses_at_exactly_max_msgs() -> None:
    stream = Stream(discard=Discard.NEW, max_msgs=2)

    outcome = stream.publish(message("a"), message("a"), message("a"))

    assert outcome == [1, 2, (503, 10077, "maximum messages exceeded")]
    assert stream.one("a")[1] == 10077


def test_a_full_subject_refuses_at_exactly_its_limit() -> None:
    stream = Stream(discard=Discard.NEW, discard_new_per_subject=True, max_msgs_per_subject=2)

    outcome = stream.publish(message("a"), message("a"), message("a"), message("b"))

    assert outcome == [1, 2, (503, 10077, "maximum messages per subject exceeded"), 3]


def test_a_full_subject_makes_room_in_a_full_stream() -> None:
    stream = Stream(discard=Discard.NEW, max_msgs=2, max_msgs_per_subject=1)

    outcome = stream.publish(message("a"), message("b"), message("a"), message("c"))

    assert outcome == [1, 2, 3, (503, 10077, "maximum messages exceeded")]
    assert stream.machine.msgs == 2


def test_a_full_subject_makes_room_for_no_more_than_its_oldest_message() -> None:
    stream = Stream(discard=Discard.NEW, max_bytes=2 * 43 + 5, max_msgs_per_subject=1)
    stream.publish(message("a.1", b"x" * 10), message("a.2", b"x" * 10))

    assert stream.one("a.1", b"x" * 10) == 3
    assert stream.one("a.1", b"x" * 9) == 4
    assert stream.error("a.1", b"x" * 10) == (503, 10077, "maximum bytes exceeded")


def test_a_roll_up_is_taken_by_a_full_subject_and_refused_by_a_full_stream() -> None:
    stream = Stream(
        discard=Discard.NEW, max_msgs=2, max_msgs_per_subject=1, discard_new_per_subject=True
    )
    stream.publish(message("a"), message("b"))

    assert stream.one("a", Nats_Rollup="sub") == 3
    assert stream.error("c", Nats_Rollup="all")[2] == "maximum messages exceeded"


def test_space_freed_by_a_roll_up_of_the_batch_is_free_for_the_rest_of_it() -> None:
    stream = Stream(discard=Discard.NEW, max_msgs=3)

    outcome = stream.publish(
        message("a"), message("a"), message("a", Nats_Rollup="sub"), message("b"), message("b")
    )

    assert outcome == [1, 2, 3, 4, 5]
    assert stream.machine.msgs == 3


def test_a_stream_that_is_not_full_refuses_nothing() -> None:
    stream = Stream(discard=Discard.NEW, max_msgs=10, max_bytes=10_000, max_msgs_per_subject=2)

    assert stream.publish(*[message("a")] * 5) == [1, 2, 3, 4, 5]
