"""No name has a banned word; `tests/tools/names.py` explains which names and words."""

# Subject: documents

import pytest

from tests.tools.names import Findings, Name, bans, check, exceptions, names, names_in


@pytest.fixture(scope="module")
def every_name() -> list[Name]:
    return list(names())


@pytest.fixture(scope="module")
def findings(every_name: list[Name]) -> Findings:
    return check(every_name)


def test_no_name_has_a_banned_word(findings: Findings) -> None:
    assert {
        f"{name.path}:{name.line}: {name.kind} {name.text}: say {ban.say}"
        for name, ban in findings.found
    } == set()


def test_every_exception_excuses_a_name_and_has_a_reason(findings: Findings) -> None:
    allowed = exceptions()

    assert [each for each in allowed if each not in findings.used] == []
    assert [each for each in allowed if not each.reason] == []
    assert {each.word for each in allowed} <= {each.word for each in bans()}


def test_names_of_every_kind_are_checked(every_name: list[Name]) -> None:
    assert {name.kind for name in every_name} == {
        "module",
        "class",
        "function",
        "method",
        "closure",
        "parameter",
        "attribute",
        "constant",
        "metric",
        "folder",
    }


SOURCE = """
LIMIT_LANE = 1


class LaneKeeper:
    lane: int
    a, my_lane = 1, 2

    def keep_lane(self, lanes: int, *, lane: int = 0) -> None:
        lane_count = 3
        self.lane, self._x = lanes, lane_count
        for lane in range(2):
            print(lane)


def lane_of(*lane: int) -> list[int]:
    return [lane for lane in lane]


def test_a_lane_is_found() -> None:
    pass
"""


def test_definitions_are_found_and_local_variables_are_not() -> None:
    named = list(names_in(SOURCE, "core/lane.py"))

    assert [
        (each.line, each.kind, each.text) for each in named if {"lane", "lanes"} & {*each.words}
    ] == [
        (1, "module", "lane"),
        (2, "constant", "LIMIT_LANE"),
        (5, "class", "LaneKeeper"),
        (6, "attribute", "lane"),
        (7, "attribute", "my_lane"),
        (9, "method", "keep_lane"),
        (9, "parameter", "lanes"),
        (9, "parameter", "lane"),
        (11, "attribute", "lane"),
        (16, "function", "lane_of"),
        (16, "parameter", "lane"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("_give_up_now", ("give", "up", "now")),
        ("HTTPServer2", ("http", "server", "2")),
        ("LETTERS_MAX", ("letters", "max")),
        ("doPost", ("do", "post")),
    ],
)
def test_a_name_is_split_into_its_words(text: str, words: tuple[str, ...]) -> None:
    assert Name("core/a.py", 1, "class", text).words == words


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (Name("core/a.py", 1, "method", "_give_up"), ["give_up"]),
        (Name("core/a.py", 1, "method", "_give_way_up"), []),
        (Name("core/a.py", 1, "method", "_take"), ["take"]),
        (Name("core/a.py", 1, "method", "take_first"), []),
        (Name("core/a.py", 1, "closure", "take"), []),
        (Name("core/a.py", 1, "parameter", "take"), []),
        (Name("core/pubsub/a.py", 1, "class", "Route"), ["route"]),
        (Name("core/route/a.py", 1, "class", "Route"), []),
        (Name("core/a.py", 1, "method", "__post_init__"), []),
        (Name("core/a.py", 1, "attribute", "dead_letters"), []),
    ],
)
def test_a_ban_may_be_limited(name: Name, found: list[str]) -> None:
    assert [ban.word for _, ban in check([name]).found] == found
