"""The transcripts show all that `coverage.toml` lists, and its exemptions hold."""

# Subject: tests

import re
from functools import cache

import pytest

from core.model.api_errors import TABLE as API_ERRORS
from tests.support.jetgate import ROOT
from tests.wire.coverage import KINDS, Shown, required, shown, table, transcripts

REASON = re.compile(
    r"(accounts|cluster|later feature: [\w -]+|unused by the reference|never sent|not reachable"
    r"|needs [\w, ]+)(: [^()]+)?(; [^()]+)?( \([^()]+\))?"
)


@cache
def found() -> Shown:
    return shown(transcripts())


@pytest.mark.parametrize("kind", KINDS)
def test_required_items_are_shown(kind: str) -> None:
    assert sorted(required(kind) - set(found()[kind])) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_exemption_is_stale(kind: str) -> None:
    exempt = table()[kind]["exempt"]

    assert sorted(set(exempt) & set(found()[kind])) == []
    assert sorted(set(exempt) & required(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_exemptions_have_a_reason_that_leads_somewhere(kind: str) -> None:
    for item, reason in table()[kind]["exempt"].items():
        assert REASON.fullmatch(reason), (item, reason)
        for place in re.findall(r"\((.*)\)", reason):
            folder = ROOT / "tests/wire/data" / f"{place}.txt"
            beside = ROOT / "tests/wire" / place
            assert folder.exists() or beside.exists() or (ROOT / place).exists(), (item, reason)


def test_every_known_error_is_either_shown_or_exempt() -> None:
    exempt = set(table()["error codes"]["exempt"])
    known = {str(row.err_code) for row in API_ERRORS.values()}

    assert exempt <= known
    assert set(found()["error codes"]) <= known


@pytest.mark.parametrize("kind", ["statuses", "acknowledgements", "advisories"])
def test_nothing_is_shown_that_is_not_listed(kind: str) -> None:
    texts = set(found()[kind]) - {
        s for s in found()[kind] if s.startswith("400 Bad Request - json")
    }

    assert sorted(texts - required(kind)) == []
