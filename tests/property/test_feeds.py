"""Many readers of one tail, whatever they take when, and whatever is let go meanwhile: each sees
everything behind its position once and in order, or is told that the tail does not reach back."""

# Subject: feeds

import asyncio
from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from core.client import JetStream
from core.client.msg import Msg
from core.client.subscribe import JsMsg, OrderedSubscription, Position
from gateway.readers.entries import Entry, Gap, Item, with_gaps
from gateway.readers.page import Page, Slice
from gateway.readers.tail import Tail

_INCARNATION = 7


@dataclass
class _Begun:
    """What a tail reads of its subscription at the beginning."""

    incarnation: int
    position: Position


def message(seq: int, size: int) -> JsMsg:
    reply = b"$JS.ACK.S.C.1.%d.1.0.0" % seq
    return JsMsg.of(Msg(b"a", reply, b"", b"x" * size), takes_acks=False)


@dataclass
class _Reader:
    """A reader of the tail alone; `index` None: it has fallen behind."""

    index: int | None
    position: int
    seen: list[int]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.lists(st.integers(1, 3), min_size=1, max_size=9)),
        st.tuples(st.just("join"), st.integers(0, 30)),
        st.tuples(st.just("take"), st.integers(0, 5), st.integers(1, 7), st.integers(1, 60)),
        st.tuples(st.just("age")),
    ),
    max_size=40,
)


@given(steps=_steps, begin=st.integers(0, 5))
def test_no_reader_misses_messages_that_the_tail_covers(
    steps: list[tuple[object, ...]], begin: int
) -> None:
    asyncio.run(_play(steps, begin))


async def _play(steps: list[tuple[object, ...]], begin: int) -> None:
    begun = cast(OrderedSubscription, _Begun(_INCARNATION, Position(_INCARNATION, begin)))
    tail = Tail(cast(JetStream, None), ("S", ()), begun)
    tail._limit, tail._limit_bytes = 12, 150
    stored: list[int] = []
    readers: list[_Reader] = []
    seq = begin
    for step in steps:
        if step[0] == "store":
            items: list[Item] = []
            for jump in cast(list[int], step[1]):
                seq += jump
                stored.append(seq)
                items.append(Entry(message(seq, seq % 40)))
            tail.append(items)
        elif step[0] == "age":
            tail._grow_old()
        elif step[0] == "join":
            position = cast(int, step[1])
            if position > seq:
                continue
            index = tail.index_behind(Position(_INCARNATION, position))
            assert (index is None) is (position < tail.base)
            if index is not None:
                readers.append(_Reader(index, position, []))
        elif readers:
            _, which, count, nbytes = cast(tuple[str, int, int, int], step)
            _receive(tail, readers[which % len(readers)], count, nbytes)
    for reader in readers:
        while reader.index is not None and reader.index < tail.end:
            _receive(tail, reader, 5, 1000)
        expected = [one for one in stored if one > reader.position]
        assert reader.seen == expected[: len(reader.seen)]
        assert reader.index is None or reader.seen == expected
    await tail_rests(tail)


def _receive(tail: Tail, reader: _Reader, count: int, nbytes: int) -> None:
    if reader.index is None or reader.index >= tail.end:
        return
    if reader.index < tail.first:
        reader.index = None
        return
    end, size = tail.slice_at(reader.index, count, nbytes)
    items = [item for item in tail.items(reader.index, end) if isinstance(item, Entry)]
    assert 1 <= len(items) <= count
    assert size == sum(item.msg.size for item in items)
    assert size - items[-1].msg.size < nbytes
    reader.seen += [item.msg.stream_seq for item in items]
    reader.index = end


async def tail_rests(tail: Tail) -> None:
    """Nothing is held, and no timer runs, when nothing has come for a while."""
    tail._grow_old()
    tail._grow_old()
    assert tail.first == tail.end
    assert tail.base == tail.head
    assert tail._aging is None


@given(
    position=st.integers(0, 20),
    jumps=st.lists(st.integers(1, 5), min_size=1, max_size=10),
    first_seq=st.integers(0, 60),
)
def test_a_gap_is_reported_where_the_beginning_has_passed_omitted_messages(
    position: int, jumps: list[int], first_seq: int
) -> None:
    messages, seq = [], position
    for jump in jumps:
        seq += jump
        messages.append(message(seq, 1))
    items = with_gaps(Position(_INCARNATION, position), messages, first_seq, seq)
    assert [i.msg for i in items if isinstance(i, Entry)] == messages
    missing = set(range(position + 1, seq)) - {msg.stream_seq for msg in messages}
    told: set[int] = set()
    for item in items:
        if isinstance(item, Gap):
            told |= set(range(item.after.seq + 1, item.position.seq + 1))
    assert told == {one for one in missing if one < first_seq}


_pages = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 39), st.booleans()), min_size=1)


def _page(begin: int, rows: list[tuple[int, int, bool]]) -> tuple[Page, list[Item]]:
    """A page of (jump, size, whether a gap is told before it)."""
    items: list[Item] = []
    seq = begin
    for jump, size, tells in rows:
        if tells:
            before, after = Position(_INCARNATION, seq), Position(_INCARNATION, seq + jump - 1)
            items.append(Gap(before, after, seq + jump, seq + jump))
        seq += jump
        items.append(Entry(message(seq, size)))
    return Page(Position(_INCARNATION, begin), items), items


@given(
    rows=_pages,
    takes=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 60)), min_size=1),
)
def test_slices_of_a_page_are_the_page(
    rows: list[tuple[int, int, bool]], takes: list[tuple[int, int]]
) -> None:
    page, items = _page(3, rows)
    taken: list[Item] = []
    turn = 0
    while len(taken) < len(items):
        count, nbytes = takes[turn % len(takes)]
        turn += 1
        end, size = page.slice_at(len(taken), count, nbytes)
        found = Slice.of(page, len(taken), end, size)
        slice_items = list(page.items(len(taken), end))
        if isinstance(slice_items[0], Gap):
            assert (found.gap, len(slice_items)) == (slice_items[0], 1)
        else:
            messages = found.messages()
            assert messages == slice_items
            assert found.count == len(messages) <= count
            sizes = [entry.msg.size for entry in messages]
            assert found.size == sum(sizes)
            assert sum(sizes[:-1]) < nbytes
            is_full = found.count == count or found.size >= nbytes
            assert is_full or end == len(items) or isinstance(items[end], Gap)
        taken += slice_items
    assert taken == items


@given(rows=_pages, begin=st.integers(0, 9), position=st.integers(0, 60), same=st.booleans())
def test_a_reader_that_continues_within_a_page_finds_it(
    rows: list[tuple[int, int, bool]], begin: int, position: int, same: bool
) -> None:
    page, items = _page(begin, rows)
    wanted = Position(_INCARNATION if same else 8, position)
    seqs = [item.msg.stream_seq for item in items if isinstance(item, Entry)]
    left = [seq for seq in seqs if seq > position]
    index = page.index_behind(wanted)
    if not same or position < begin or not left or len(seqs) < len(items):
        assert index is None
    else:
        assert index is not None
        assert seqs[index:] == left
