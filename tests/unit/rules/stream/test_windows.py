"""The deduplication window and the window of oldest messages."""

# Subject: deduplication

import pytest

from core.rules.stream.state import dedup
from core.rules.stream.state.dedup import DedupWindow
from core.rules.stream.state.oldest import OldestMessages

MS = 1_000_000
SECOND = 1000 * MS
T = 1_000 * SECOND


def test_an_id_is_known_until_exactly_the_window_has_passed() -> None:
    window = DedupWindow(2 * SECOND)
    window.add([(b"i", 1)], T)

    assert window.find(b"i", T + 2 * SECOND - 1) == 1
    assert window.find(b"i", T + 2 * SECOND) is None


def test_an_id_is_never_forgotten_before_its_time() -> None:
    window = DedupWindow(2 * SECOND)
    window.add([(b"i", 1)], T)
    window.add([(b"j", 2)], T + MS // 2)

    assert window.find(b"j", T + MS // 2 + 2 * SECOND - 1) == 2


def test_ids_of_other_batches_age_on_their_own() -> None:
    window = DedupWindow(2 * SECOND)
    window.add([(b"i", 1)], T)
    window.add([(b"j", 2)], T + SECOND)

    assert window.find(b"i", T + 2 * SECOND) is None
    assert window.find(b"j", T + 2 * SECOND) == 2


def test_an_id_that_comes_again_after_the_window_is_the_newer_one() -> None:
    window = DedupWindow(2 * SECOND)
    window.add([(b"i", 1)], T)
    window.add([(b"i", 2)], T + 3 * SECOND)

    assert window.find(b"i", T + 4 * SECOND) == 2


def test_an_unknown_id_is_not_found() -> None:
    window = DedupWindow(SECOND)

    assert window.find(b"i", T) is None


def test_old_generations_are_dropped_whole() -> None:
    window = DedupWindow(SECOND)
    for n in range(100):
        window.add([(b"%d" % n, n + 1)], T + n * 100 * MS)

    assert len(window) <= 16


def test_a_full_generation_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "_GENERATION_IDS", 3)
    window = DedupWindow(SECOND)
    for n in range(10):
        window.add([(b"%d" % n, n + 1)], T + n)

    assert [window.find(b"%d" % n, T + 10) for n in range(10)] == list(range(1, 11))
    assert len(window._generations) > 1


def test_a_window_that_was_made_shorter_forgets_sooner() -> None:
    window = DedupWindow(10 * SECOND)
    window.add([(b"i", 1)], T)
    window.window = SECOND

    assert window.find(b"i", T + SECOND) is None


def test_a_front_window_counts_what_it_holds() -> None:
    oldest = OldestMessages(0)
    oldest.load([(1, b"a", 10, T), (2, b"b", 20, T + 1)], 5)
    oldest.extend([6, 7], [b"a", b"c"], [5, 6], [T + 2, T + 3], 7)

    assert next(iter(oldest)) == (1, b"a", 10, T)
    assert (len(oldest), oldest.nbytes, oldest.through) == (4, 41, 7)
    assert oldest.newest_time() == T + 3


def test_a_front_window_forgets_what_is_gone() -> None:
    oldest = OldestMessages(0)
    oldest.load([(1, b"a", 10, T), (2, b"b", 20, T + 1)], 2)

    oldest.drop([(1, b"a", 10), (9, b"z", 99)])

    assert (len(oldest), oldest.nbytes) == (1, 20)


def test_an_empty_front_window_has_no_time() -> None:
    assert OldestMessages(0).newest_time() == 0
