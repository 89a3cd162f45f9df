"""Searching the subjects of an index gives what looking at each of them gives."""

# Subject: message get

import random

import pytest

from core.rules.stream.state import subject_search
from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex, make_index
from core.subjects.subject import compile_filters

Index = LogIndex | LastIndex | HistoryIndex


def _found(index: Index, *filters: bytes) -> list[bytes]:
    for _ in index.prepare(filters):
        pass
    found = [subject for part in index.search(filters) for subject in part]
    assert len(found) == len(set(found)), "none twice"
    return sorted(found)


def _expected(index: Index, *filters: bytes) -> list[bytes]:
    match = compile_filters(filters)
    return sorted(s for s, _, _ in index.items() if match is None or match(s))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_search, "RUN", 16)
    monkeypatch.setattr(subject_search, "SMALL", 8)


@pytest.fixture(params=["looked at", "passed over"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to go through a run."""
    if request.param == "passed over":
        monkeypatch.setattr(subject_search, "_MANY", 1)
        monkeypatch.setattr(subject_search, "_SCANNED", 1)


FILTERS = [
    (b"a.>",),
    (b"a.1.*",),
    (b"*.1.*",),
    (b">",),
    (),
    (b"a.1.x", b"b.2.y", b"nope"),
    (b"a.1.x", b"a.*.x", b"a.>"),
    (b"b.2.*", b"b.>", b"b.*.*"),
    (b"c.>",),
    (b"*.*.x",),
    (b"*.2.>",),
    (b"*.2.y",),
    (b"a.*.y",),
]


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.usefixtures("runs", "ways")
def test_search_agrees_with_a_look_at_everything(limit: int) -> None:
    chance = random.Random(limit)
    index, seq = make_index(limit), 0
    for _ in range(60):
        some = [
            b"%c.%d.%c" % (chance.choice(b"ab"), chance.randrange(9), chance.choice(b"xyz"))
            for _ in range(chance.randrange(1, 12))
        ]
        if limit == 1:
            some = list(dict.fromkeys(some))
        index.add(range(seq + 1, seq + 1 + len(some)), some, [1] * len(some))
        seq += len(some)
        gone = [
            (last, subject, 1)
            for subject, count, last in list(index.items())
            if count == 1 and chance.random() < 0.1
        ]
        index.remove_all(gone)
        filters = chance.choice(FILTERS)
        assert _found(index, *filters) == _expected(index, *filters)


@pytest.mark.usefixtures("runs")
def test_subjects_that_come_while_runs_are_made_are_found() -> None:
    index = make_index(0)
    index.add(range(1, 101), [b"a.%d" % i for i in range(100)], [1] * 100)
    getting_ready = index.prepare([b"a.*"])
    next(getting_ready)
    index.add([101], [b"a.new"], [1])
    assert b"a.new" in [s for part in index.search([b"a.*"]) for s in part]
    list(getting_ready)
    assert b"a.new" in _found(index, b"a.*")


@pytest.mark.usefixtures("runs")
def test_runs_are_given_up_when_they_hold_much_more_than_the_index() -> None:
    index = make_index(0)
    index.add(range(1, 21), [b"a.%d" % i for i in range(20)], [1] * 20)
    assert len(_found(index, b"a.*")) == 20
    for i in range(20, 400):
        index.remove_all([(i - 19, b"a.%d" % (i - 20), 1)])
        index.add([i + 1], [b"a.%d" % i], [1])
    assert index.names is None
    assert _found(index, b"a.*") == _expected(index, b"a.*")
