"""The decisions of the ledger of transactions, as values."""

# Subject: transactions

from typing import Any

import pytest

from core.errors import ApiError
from core.rules.stream.transactions.ledger import (
    PAST_RUNS_MAX,
    Attempt,
    BatchError,
    ChunkProgress,
    LedgerEntry,
    RowPosition,
    StagedBatch,
    advance,
    check_manifest,
    is_new_batch,
    oldest_staged_message,
    open_run,
    record,
    staged_messages_from,
)

NOW = 1_000
ONE = Attempt("one", ((1, 3), (5, 5)), 40, 7)
TWO = Attempt("two", ((4, 4),), 2, 8)
STOP = BatchError(400, 1, "no", "one", 3, 4, "s")


def entry_of(batch: StagedBatch | None = None, **more: Any) -> LedgerEntry:
    return LedgerEntry("app", 5, "run", ("before",), 9, batch, **more)


def with_run(entry: LedgerEntry | None, run: str, **more: Any) -> LedgerEntry:
    given = {"app": "app", "keep": 9, "highest": 0, "now": NOW, **more}
    return open_run(entry, run=run, **given)


# -- runs ------------------------------------------------------------------------------------------


def test_the_first_run_gets_a_token_that_was_never_given() -> None:
    assert with_run(None, "x") == LedgerEntry("app", 1, "x", keep=9, changed=NOW)
    assert with_run(None, "x", highest=7).token == 8


def test_the_same_run_keeps_its_token() -> None:
    entry = entry_of()

    assert with_run(entry, "run") is entry
    assert with_run(entry, "run", keep=3) == LedgerEntry("app", 5, "run", ("before",), 3, None, NOW)


def test_another_run_gets_the_next_token_and_keeps_the_batch() -> None:
    batch = StagedBatch(4, (ONE,), 40, promoted=3)

    entry = with_run(entry_of(batch), "later")

    assert (entry.token, entry.run, entry.past) == (6, "later", ("run", "before"))
    assert entry.batch is batch


def test_a_superseded_run_is_refused_as_long_as_it_is_remembered() -> None:
    entry = with_run(None, "0")
    for n in range(1, PAST_RUNS_MAX + 2):
        entry = with_run(entry, str(n))

    assert len(entry.past) == PAST_RUNS_MAX
    with pytest.raises(ApiError, match="superseded"):
        with_run(entry, "1")
    assert with_run(entry, "0").token == entry.token + 1


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\0b"])
def test_names_are_short_and_printable(name: str) -> None:
    with pytest.raises(ApiError, match="printable"):
        with_run(None, name)
    with pytest.raises(ApiError, match="printable"):
        with_run(None, "x", app=name)


# -- which batch -----------------------------------------------------------------------------------


def test_a_batch_is_new_if_it_is_above_the_last_which_is_done() -> None:
    done, going = StagedBatch(4, (), 40), StagedBatch(4, (ONE,), 40)

    assert is_new_batch(entry_of(), "app", 5, 0)
    assert is_new_batch(entry_of(done), "app", 5, 9)
    assert not is_new_batch(entry_of(done), "app", 5, 4)
    assert not is_new_batch(entry_of(going), "app", 5, 4)


@pytest.mark.parametrize(
    ("entry", "token", "batch", "number"),
    [
        (None, 1, 1, 20001),
        (entry_of(), 4, 1, 20003),
        (entry_of(), 6, 1, 20004),
        (entry_of(StagedBatch(4, (), 0)), 5, 3, 20005),
        (entry_of(StagedBatch(4, (ONE,), 40)), 5, 5, 20006),
        (entry_of(StagedBatch(4, (ONE,), 40)), 4, 4, 20003),
    ],
)
def test_other_commits_are_refused(
    entry: LedgerEntry | None, token: int, batch: int, number: int
) -> None:
    with pytest.raises(ApiError) as error:
        is_new_batch(entry, "app", token, batch)

    assert error.value.err_code == number


# -- manifests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attempts",
    [
        (ONE, ONE),
        (Attempt("", ((1, 1),), 1, 0),),
        (Attempt("a b", ((1, 1),), 1, 0),),
        (Attempt("x" * 65, ((1, 1),), 1, 0),),
        (Attempt("a", ((0, 1),), 1, 0),),
        (Attempt("a", ((2, 1),), 1, 0),),
        (Attempt("a", ((1, 2), (2, 3)), 1, 0),),
        (Attempt("a", ((1, 1 << 63),), 1, 0),),
        (Attempt("a", ((1, 1),), -1, 0),),
        (Attempt("a", ((1, 1),), 1, 1 << 32),),
        (Attempt("a", (), 1, 0),),
    ],
)
def test_a_manifest_that_cannot_be_one_is_refused(attempts: tuple[Attempt, ...]) -> None:
    with pytest.raises(ApiError, match="manifest invalid"):
        check_manifest(1, attempts)


@pytest.mark.parametrize("batch", [-1, 1 << 63])
def test_batches_are_numbers_of_63_bits(batch: int) -> None:
    with pytest.raises(ApiError, match="manifest invalid"):
        check_manifest(batch, ())


def test_a_manifest_without_blocks_is_done_when_it_is_recorded() -> None:
    check_manifest(0, ())
    check_manifest(1, (ONE, TWO))
    begun, empty = record(entry_of(), 1, (ONE, TWO), NOW), record(entry_of(), 1, (), NOW)

    assert begun.batch == StagedBatch(1, (ONE, TWO), 42)
    assert not begun.batch.is_done
    assert empty.batch == StagedBatch(1, (), 0)
    assert empty.batch.is_done
    assert begun.changed == NOW


# -- progress --------------------------------------------------------------------------------------


def going(**more: Any) -> LedgerEntry:
    return entry_of(StagedBatch(1, (ONE, TWO), 42, **more))


def test_progress_adds_up() -> None:
    first = advance(going(), ChunkProgress(20, 5, range(8, 23), RowPosition(0, 1, 3)), NOW)
    second = advance(first, ChunkProgress(3, 3, range(23, 23), RowPosition(0, 2)), NOW)

    assert second.batch == StagedBatch(
        1,
        (ONE, TWO),
        42,
        promoted=23,
        duplicates=8,
        first_seq=8,
        last_seq=22,
        place=RowPosition(0, 2),
    )


def test_a_batch_is_done_with_the_last_chunk() -> None:
    last = ChunkProgress(2, 0, range(8, 10), RowPosition(2), is_last=True)

    done = advance(going(promoted=40, first_seq=3), last, NOW).batch

    assert done is not None
    assert done.is_done
    assert (done.promoted, done.first_seq, done.last_seq, done.stop) == (42, 3, 9, None)


def test_a_batch_with_a_wrong_count_of_rows_stops_at_its_end() -> None:
    last = ChunkProgress(1, 0, range(8, 9), RowPosition(2), is_last=True)

    batch = advance(going(promoted=40), last, NOW).batch

    assert batch is not None
    assert not batch.is_done
    assert batch.stop is not None
    assert batch.stop.description == "the blocks of the manifest have 41 rows, not 42"


def test_a_stop_is_kept_until_the_next_chunk() -> None:
    stopped = advance(going(), ChunkProgress(4, 0, range(1, 5), RowPosition(0, 0, 4), STOP), NOW)
    assert stopped.batch is not None
    assert (stopped.batch.stop, stopped.batch.place) == (STOP, RowPosition(0, 0, 4))

    on = advance(stopped, ChunkProgress(1, 0, range(5, 6), RowPosition(0, 0, 5)), NOW)

    assert on.batch is not None
    assert on.batch.stop is None


# -- blocks ----------------------------------------------------------------------------------------


def test_blocks_follow_one_another_from_a_place_on() -> None:
    blocks = [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 5), (1, 0, 4)]

    assert list(staged_messages_from((ONE, TWO), RowPosition())) == blocks
    assert list(staged_messages_from((ONE, TWO), RowPosition(0, 2, 9))) == blocks[2:]
    assert list(staged_messages_from((ONE, TWO), RowPosition(0, 4))) == blocks[4:]
    assert list(staged_messages_from((ONE, TWO), RowPosition(1, 1))) == []


def test_an_unfinished_batch_needs_its_blocks() -> None:
    assert oldest_staged_message(entry_of()) is None
    assert oldest_staged_message(entry_of(StagedBatch(1, (), 0))) is None
    assert oldest_staged_message(entry_of(StagedBatch(1, (TWO, Attempt("e", (), 0, 0)), 2))) == 4
    assert oldest_staged_message(going()) == 1
