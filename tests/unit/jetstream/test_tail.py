"""The memory tail: what it holds, what it forgets, how a reader walks it."""

# Subject: storage

from core.jetstream.log.tail import Tail, TailBudget
from core.model.segment import Segment


def segment(first: int, count: int = 1, headers: bool = False, size: int = 100) -> Segment:
    """A committed batch of `count` messages of 100 bytes."""
    blocks: list[bytes | None] | None = [b"NATS/1.0\r\nA: b\r\n\r\n"] * count if headers else None
    seqs = range(first, first + count)
    subjects = [b"s"] * count
    return Segment(seqs, seqs, subjects, blocks, [bytes(size)] * count, size * count)


def tail(limit: int = 1 << 20, start: int = 1) -> tuple[Tail, list[Segment]]:
    dropped: list[Segment] = []
    return Tail(TailBudget(limit), start, dropped.append), dropped


def seq_at(found: tuple[Segment, int] | None) -> int:
    assert found is not None
    return found[0].seqs[found[1]]


def test_an_empty_tail_covers_nothing() -> None:
    empty, _ = tail()

    assert empty.at(1) is None
    assert empty.since(1) == []


def test_a_message_is_found_by_its_sequence() -> None:
    found, _ = tail()
    found.append(segment(1, 100))
    found.append(segment(101, 100))

    assert [seq_at(found.at(seq)) for seq in (1, 100, 101, 200)] == [1, 100, 101, 200]
    assert found.at(201) is None


def test_a_sequence_in_a_gap_finds_the_next_message() -> None:
    gappy, _ = tail()
    gappy.append(segment(5, 70))
    gappy.append(segment(100, 70))

    assert seq_at(gappy.at(1)) == 5
    assert seq_at(gappy.at(80)) == 100


def test_messages_before_the_start_are_not_in_memory() -> None:
    late, _ = tail(start=50)
    late.append(segment(50, 10))

    assert late.at(49) is None
    assert seq_at(late.at(50)) == 50


def test_small_batches_share_a_segment() -> None:
    merged, _ = tail()
    for seq in range(1, 11):
        merged.append(segment(seq))

    ((only, index),) = merged.since(1)
    assert (len(only), index) == (10, 0)
    assert only.seqs == range(1, 11)
    assert only.nbytes == 1000


def test_a_large_batch_begins_a_segment_of_its_own() -> None:
    large, _ = tail()
    large.append(segment(1))
    large.append(segment(2, 64))

    assert [len(s) for s, _ in large.since(1)] == [1, 64]


def test_a_full_segment_is_not_extended() -> None:
    full, _ = tail()
    full.append(segment(1, 512))
    full.append(segment(513))

    assert [len(s) for s, _ in full.since(1)] == [512, 1]


def test_segments_with_gaps_merge_into_lists() -> None:
    mixed, _ = tail()
    mixed.append(segment(1, 2))
    mixed.append(segment(10, 2))

    ((only, _),) = mixed.since(1)
    assert list(only.seqs) == [1, 2, 10, 11]
    assert list(only.times) == [1, 2, 10, 11]
    assert seq_at(mixed.at(5)) == 10


def test_headers_appear_when_the_first_message_with_some_is_merged() -> None:
    mixed, _ = tail()
    mixed.append(segment(1))
    mixed.append(segment(2, headers=True))
    mixed.append(segment(3))

    ((only, _),) = mixed.since(1)
    assert only.headers == [None, b"NATS/1.0\r\nA: b\r\n\r\n", None]


def test_a_reader_keeps_its_place_while_its_segment_grows() -> None:
    growing, _ = tail()
    growing.append(segment(1))
    found = growing.at(1)
    assert found is not None
    growing.append(segment(2))

    assert found[0].seqs[found[1] + 1] == 2


def test_since_covers_everything_from_a_sequence_on() -> None:
    covered, _ = tail()
    for first in (1, 101, 201):
        covered.append(segment(first, 100))

    seqs = [s for part, start in covered.since(150) for s in part.seqs[start:]]
    assert seqs == list(range(150, 301))


def test_the_oldest_segment_goes_when_the_budget_is_spent() -> None:
    small, dropped = tail(limit=50_000)
    for first in (1, 101, 201):
        small.append(segment(first, 100))

    assert [s.first for s in dropped] == [1]
    assert small.start == 101
    assert small.at(100) is None
    assert seq_at(small.at(101)) == 101


def test_the_newest_segment_stays_whatever_the_budget() -> None:
    tiny, dropped = tail(limit=1)
    tiny.append(segment(1, 100))

    assert dropped == []
    assert seq_at(tiny.at(1)) == 1


def test_streams_share_one_budget() -> None:
    dropped: list[Segment] = []
    budget = TailBudget(50_000)
    one, two = Tail(budget, 1, dropped.append), Tail(budget, 1, dropped.append)
    one.append(segment(1, 100))
    two.append(segment(1, 100))
    two.append(segment(101, 100))

    assert one.at(1) is None
    assert one.start == 101
    assert seq_at(two.at(1)) == 1


def test_a_merged_message_is_charged_to_the_budget() -> None:
    budget = TailBudget(1 << 20)
    merged = Tail(budget, 1, lambda gone: None)
    merged.append(segment(1))
    before = budget.used
    merged.append(segment(2))

    assert budget.used == 2 * before


def test_a_cleared_tail_begins_anew() -> None:
    cleared, dropped = tail()
    cleared.append(segment(1, 100))
    cleared.clear(101)
    cleared.append(segment(101))

    assert dropped == []
    assert cleared.at(100) is None
    assert seq_at(cleared.at(101)) == 101


def test_a_cleared_tail_leaves_the_budget_consistent() -> None:
    cleared, dropped = tail(limit=50_000)
    cleared.append(segment(1, 100))
    cleared.clear(101)
    for first in (101, 201, 301):
        cleared.append(segment(first, 100))

    assert all(s.first > 100 for s in dropped)
    assert seq_at(cleared.at(301)) == 301
