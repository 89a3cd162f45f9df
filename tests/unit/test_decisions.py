"""The records in docs/decisions have one form, numbers without gaps, and a row in their table."""

# Subject: documents

import re
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT

FOLDER = ROOT / "docs/decisions"
RECORDS = sorted(FOLDER.glob("0*.md"))
HEADINGS = ["Context", "Decision", "Consequences", "Alternatives"]
_BEFORE = re.compile(r"\| `(\d{4}-[a-z0-9-]+)` \| \[`([a-z0-9-]+)`\]\(([a-z0-9-]+)\.md\) \|")


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_its_number_and_four_headings(record: Path) -> None:
    text = record.read_text()
    number = int(record.name[:4])

    assert re.match(rf"# {number}\. [A-Z]", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert re.search(r"^## .+\n+(?=## |\Z)", text, re.MULTILINE) is None, "an empty part"


def test_numbers_have_no_gaps() -> None:
    numbers = [int(record.name[:4]) for record in RECORDS]

    assert numbers == list(range(1, len(numbers) + 1))


def test_the_table_has_each_record() -> None:
    page = (FOLDER / "README.md").read_text()

    rows = re.findall(r"^\| \[(\d+)\]\((.+)\) \| (.+) \|$", page, re.MULTILINE)
    titles = [record.read_text().splitlines()[0].partition(". ")[2] for record in RECORDS]
    assert rows == [
        (record.name[:4], record.name, title) for record, title in zip(RECORDS, titles, strict=True)
    ]


def test_earlier_names_lead_to_a_record_and_are_used_nowhere_else() -> None:
    page = FOLDER / "README.md"
    before = _BEFORE.findall(page.read_text())

    assert len(before) == page.read_text().count("| `0")
    assert {now for _, now, _ in before} <= {record.stem for record in RECORDS}
    assert all(now == link for _, now, link in before)
    documents = [path for path in ROOT.glob("docs/**/*.md") if path != page]
    old = [name for name, _, _ in before]
    assert [path.name for path in documents if any(name in path.read_text() for name in old)] == []
