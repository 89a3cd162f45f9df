"""The page of compatibility and its table agree, even when only some tests run."""

# Subject: documents

import re

import pytest

from tests.compat.page import ALONE, PAGE, SAME, TABLE, Feature, Run, Section, load, render, row
from tests.support.jetgate import ROOT

FEATURES = [feature for section in load() for feature in section.features]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name[:40])
def test_the_tests_of_a_feature_are_there(feature: Feature) -> None:
    for written in feature.tests:
        if written.startswith("tests/"):
            place, _, name = written.partition("::")
            assert (ROOT / place).exists()
            wanted = "def " + name.partition("[")[0].replace("*", ".*")
            assert not name or re.search(wanted, (ROOT / place).read_text()), written
        else:
            base = ROOT / "tests/wire" / ("" if written.startswith("configured/") else "data")
            assert list(base.glob(written)) or list(base.glob(f"{written}.txt")), written


def test_the_page_has_the_rows_of_the_table() -> None:
    """The page is compared without its verdicts, which only a complete run determines."""
    marker = "\0"
    lines = [row(feature, marker).split(marker) for feature in FEATURES]
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    shown = [line for line in shown if not re.match(r"\| (feature|document) \|", line)]

    assert len(shown) == len(lines), f"{TABLE.name} has changed: python -m tests.compat"
    for line, (before, after) in zip(shown, lines, strict=True):
        assert line.startswith(before), line
        assert line.endswith(after), line


def test_a_verdict_is_the_result_of_the_tests() -> None:
    same = Feature("a", ("pull/*",))
    alone = Feature("b", ("tests/y.py",))
    refused = Feature("c", ("tests/x.py::test_c",), refused=True)
    broken = Feature("d", ("tests/x.py::test_d*",))
    pull = "tests/wire/test_transcripts.py::test_transcript[{}-pull/empty_body]"
    outcomes = {pull.format(name): "passed" for name in ("jetgate", "nats-server")}
    outcomes |= {"tests/y.py::test_y": "passed", "tests/x.py::test_c": "passed"}
    outcomes |= {"tests/x.py::test_d[1]": "passed", "tests/x.py::test_d[2]": "failed"}
    run = Run(outcomes, {pull.format("nats-server")}, {"tests/x.py::test_c": "`1 no`"})

    page = render([Section("S", [same, alone, refused, broken])], run)

    verdicts = [line.split(" | ")[3] for line in page.splitlines()[-4:]]
    assert verdicts == [SAME, ALONE, "not served: `1 no`", "**fails**"]
