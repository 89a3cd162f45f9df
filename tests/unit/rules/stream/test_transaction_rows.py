"""What a plan takes of the rows of a transaction, and how rows are read from a block."""

# Subject: transactions

import pytest

from core.model.stream import Discard
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plans.transaction_rows import RowsPlan, plan_rows
from core.rules.stream.preconditions import NO_PRECONDITIONS
from core.rules.stream.transactions.staged_rows import decode_rows
from tests.support.transactions import encoded
from tests.unit.rules.stream.support import NOW, columns, config, message

Message = tuple[bytes, bytes, bytes]


def promote(machine: StreamMachine, *messages: Message) -> RowsPlan:
    """Plan rows as they come from blocks, and apply the plan."""
    rows = columns(*messages)
    rows.replies = []
    promoted = plan_rows(machine, rows, NOW, NO_PRECONDITIONS)
    assert not promoted.plan.acks
    assert not promoted.plan.answers
    machine.apply(promoted.plan.build())
    return promoted


def payloads(promoted: RowsPlan) -> list[bytes]:
    segment = promoted.plan.segment
    return [] if segment is None else segment.payloads


def test_rows_are_stored_in_order() -> None:
    promoted = promote(StreamMachine(config()), message("a", b"1"), message("b", b"2", X="1"))

    assert (promoted.rows, promoted.duplicates, promoted.error) == (2, 0, None)
    assert payloads(promoted) == [b"1", b"2"]


def test_known_ids_are_counted_and_left_out() -> None:
    machine = StreamMachine(config())
    promote(machine, message("a", b"1", Nats_Msg_Id="i"))

    promoted = promote(
        machine,
        message("a", b"2", Nats_Msg_Id="i"),
        message("a", b"3", Nats_Msg_Id="j"),
        message("a", b"4", Nats_Msg_Id="j", X="1"),
    )

    assert (promoted.rows, promoted.duplicates) == (3, 2)
    assert payloads(promoted) == [b"3"]
    assert machine.last_seq == 2


def test_nothing_is_stored_from_the_first_refused_row_on() -> None:
    machine = StreamMachine(config())

    promoted = promote(
        machine, message("a", b"1"), message("a", b"2", Nats_TTL="1s"), message("a", b"3")
    )

    assert promoted.rows == 1
    assert promoted.error is not None
    assert promoted.error.description == "per-message TTL is disabled"
    assert payloads(promoted) == [b"1"]


def test_a_first_row_that_is_refused_changes_nothing() -> None:
    machine = StreamMachine(config(sealed=True))

    promoted = promote(machine, message("a", b"1"))

    assert (promoted.rows, promoted.plan.build().changes_head) == (0, False)
    assert promoted.error is not None
    assert promoted.error.description == "invalid operation on sealed stream"


def test_a_full_stream_takes_what_it_has_room_for() -> None:
    machine = StreamMachine(config(max_msgs=2, discard=Discard.NEW))

    promoted = promote(machine, *(message("a", b"%d" % n) for n in range(4)))

    assert promoted.rows == 2
    assert promoted.error is not None
    assert promoted.error.description == "maximum messages exceeded"


@pytest.mark.parametrize(
    "header",
    [
        "Nats-Expected-Last-Sequence",
        "Nats-Expected-Last-Subject-Sequence",
        "Nats-Expected-Last-Subject-Sequence-Subject",
        "Nats-Expected-Last-Msg-Id",
        "Nats-Batch-Id",
        "Nats-Batch-Sequence",
        "Nats-Batch-Commit",
    ],
)
@pytest.mark.parametrize("more", [{}, {"Nats_Msg_Id": "i"}])
def test_headers_of_a_moment_are_refused_by_name(header: str, more: dict[str, str]) -> None:
    named = {header.replace("-", "_"): "0", **more}

    promoted = promote(StreamMachine(config()), message("a", b"1", **named))

    assert promoted.error is not None
    assert promoted.error.description == f'header "{header}" is not supported in a transaction'


def test_the_stream_may_be_expected() -> None:
    machine = StreamMachine(config())

    good = promote(machine, message("a", Nats_Expected_Stream="S"))
    bad = promote(machine, message("a", Nats_Expected_Stream="T"))

    assert good.error is None
    assert bad.error is not None
    assert bad.error.description == "expected stream does not match"


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_holds_rows_of_both_kinds() -> None:
    block = encoded(("a", b"1")) + encoded(("b", b"PUB x 1\r\n", {"X": "1"})) + encoded(("c", b""))

    rows, whole = decode_rows(block)

    assert whole
    assert rows.subjects == [b"a", b"b", b"c"]
    assert rows.headers == [b"", b"NATS/1.0\r\nX: 1\r\n\r\n", b""]
    assert rows.payloads == [b"1", b"PUB x 1\r\n", b""]
    assert (rows.nbytes, rows.has_headers) == (10 + len(rows.headers[1]), True)


def test_many_rows_of_one_size_are_read() -> None:
    rows, whole = decode_rows(b"".join(encoded((f"s.{n}", b"%04d" % n)) for n in range(1000)))

    assert whole
    assert len(rows) == len(rows.subjects) == len(rows.headers) == 1000
    assert not rows.has_headers


@pytest.mark.parametrize(
    "bad",
    [
        b"PUB a 5\r\nabc\r\n",
        b"PUB a",
        b"pub a 0\r\n\r\n",
        b"PING\r\n",
        b"PUB a r 1\r\nx\r\n",
        b"\0",
    ],
)
@pytest.mark.parametrize("before", [0, 1, 30])
def test_a_malformed_row_ends_a_block(bad: bytes, before: int) -> None:
    good = encoded(("a", b"abc"))

    rows, whole = decode_rows(good * before + bad + good)

    assert not whole
    assert len(rows) == before


def test_an_empty_block_has_no_rows() -> None:
    rows, whole = decode_rows(b"")

    assert (len(rows), whole) == (0, True)
