"""Parts of a segment are copies that agree with its messages."""

# Subject: streams

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from core.model.segment import Segment

_ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b.c"]), st.sampled_from([None, b"H"]), st.binary(max_size=3)
    ),
    min_size=1,
    max_size=9,
)


def segment_of(rows: list[tuple[bytes, bytes | None, bytes]], first: int = 7) -> Segment:
    seqs = range(first, first + len(rows))
    headers = [row[1] for row in rows] if any(row[1] for row in rows) else None
    times = [seq * 10 for seq in seqs]
    return Segment(seqs, times, [row[0] for row in rows], headers, [row[2] for row in rows], 99)


def messages_of(segment: Segment) -> list[tuple[int, int, bytes, bytes | None, bytes]]:
    headers = segment.headers or [None] * len(segment)
    columns = segment.seqs, segment.times, segment.subjects, headers, segment.payloads
    return list(zip(*columns, strict=True))


@given(_ROWS, st.integers(0, 9), st.integers(0, 9))
def test_a_part_is_a_copy(
    rows: list[tuple[bytes, bytes | None, bytes]], start: int, stop: int
) -> None:
    segment = segment_of(rows)
    before = messages_of(segment)

    part = segment.part(start, stop)

    assert messages_of(part) == before[start:stop]
    part.subjects.append(b"x")
    assert messages_of(segment) == before


@given(_ROWS, st.lists(st.booleans(), min_size=9, max_size=9))
def test_messages_are_picked(
    rows: list[tuple[bytes, bytes | None, bytes]], chosen: list[bool]
) -> None:
    segment = segment_of(rows)
    places = list(compress(range(len(rows)), chosen))

    picked = segment.pick(places)

    assert messages_of(picked) == [messages_of(segment)[place] for place in places]
    assert [picked.size(at) for at in range(len(picked))] == [
        len(subject) + len(headers or b"") + len(payload)
        for _, _, subject, headers, payload in messages_of(picked)
    ]
