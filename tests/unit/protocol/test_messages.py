"""Messages in columns agree with a list of messages, whatever is done with both."""

# Subject: protocol

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.protocol.messages import Message, MessageColumns

_HEADERS = st.sampled_from([b"", b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
_MESSAGE = st.tuples(
    st.sampled_from([b"a", b"b.c"]), st.sampled_from([b"", b"r"]), _HEADERS, st.binary(max_size=4)
)
_MESSAGES = st.lists(_MESSAGE, max_size=12)


def columns_of(messages: list[Message]) -> MessageColumns:
    columns = MessageColumns()
    for message in messages:
        columns.add(*message)
    return columns


def agree(columns: MessageColumns, messages: list[Message]) -> None:
    assert list(columns.messages()) == messages
    assert len(columns) == len(messages)
    assert columns.has_headers == any(headers for _, _, headers, _ in messages)
    assert columns.nbytes == sum(len(h) + len(p) for _, _, h, p in messages)


@given(_MESSAGES, _MESSAGES)
def test_messages_are_appended(first: list[Message], more: list[Message]) -> None:
    columns = columns_of(first)

    columns.extend(columns_of(more))

    agree(columns, first + more)


@given(_MESSAGES, st.integers(0, 12), st.integers(0, 12))
def test_a_part_is_a_copy(messages: list[Message], start: int, stop: int) -> None:
    columns = columns_of(messages)

    part = columns.part(start, stop)

    agree(part, messages[start:stop])
    assert list(columns.slice(start, stop)) == messages[start:stop]
    part.add(b"x", b"", b"", b"y")
    agree(columns, messages)


@given(_MESSAGES, st.integers(0, 14))
def test_the_first_messages_are_split_off(messages: list[Message], count: int) -> None:
    columns = columns_of(messages)

    head = columns.split(count)

    agree(head, messages[:count])
    assert list(columns.messages()) == messages[count:]
    assert columns.nbytes == sum(len(h) + len(p) for _, _, h, p in messages[count:])
    # The rest may have lost its only header block: that costs a look, and changes nothing.
    assert columns.has_headers >= any(headers for _, _, headers, _ in messages[count:])


@given(_MESSAGES)
def test_runs_are_all_messages_in_order_and_replies_stand_alone(messages: list[Message]) -> None:
    columns = columns_of(messages)

    runs = list(columns.rows())

    assert [at for start, stop in runs for at in range(start, stop)] == list(range(len(messages)))
    if len(runs) > 1:
        assert all(stop == start + 1 for start, stop in runs if any(columns.replies[start:stop]))


def test_traced_replies_go_with_the_messages() -> None:
    columns: Any = columns_of([(b"a", b"r", b"", b"1"), (b"a", b"s", b"", b"2")])
    columns.answered = frozenset((b"r",))
    other = columns_of([(b"a", b"t", b"", b"3")])
    other.answered = frozenset((b"t",))

    head = columns.split(1)
    head.extend(other)

    assert head.answered == {b"r", b"t"}
    assert columns.answered == {b"r"}
