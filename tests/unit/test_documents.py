"""No document has a construction that costs a second reading, or a long sentence."""

# Subject: documents

from pathlib import Path

import pytest

from tests.support.jetgate import ROOT
from tests.tools.documents import (
    CLAUSE,
    LONGEST,
    TOO_LONG,
    UNREAD,
    Sentence,
    documents,
    faults,
    sentences,
)


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_has_no_banned_construction(document: Path) -> None:
    found = [
        f"{each.path}:{each.line}: {kind}: {words!r}"
        for each in sentences(document)
        for kind, words in faults(each)
    ]

    assert found == []


def test_the_exceptions_exist() -> None:
    assert [name for name in UNREAD if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Return what is left.", [CLAUSE]),
        ("What happens after a crash?", []),
        ("He is told.", ["a person where a program is meant", "speech where data are sent"]),
        ("The `what` of `he` is ``told``.", []),
        (" ".join(["word"] * LONGEST), []),
        (" ".join(["word"] * (LONGEST + 1)), [TOO_LONG]),
    ],
)
def test_constructions_are_found(
    text: str, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tools.documents.ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text(f"{text}\n")

    found = [kind for each in sentences(page) for kind, _ in faults(each)]

    assert sorted(found) == sorted(kinds)


def test_paragraphs_entries_and_cells_are_read_and_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tools.documents.ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text(
        "# Title\n\nOne. [Two](x.md)\ngoes on.\n\n- an entry\n  of two lines\n\n    a block\n\n"
        "```sh\ncode\n```\n\n| a | `b` c |\n|---|---|\n<!-- a comment -->\n"
    )

    assert list(sentences(page)) == [
        Sentence("a.md", 1, "Title"),
        Sentence("a.md", 3, "One."),
        Sentence("a.md", 3, "Two goes on."),
        Sentence("a.md", 6, "an entry of two lines"),
        Sentence("a.md", 15, "a"),
        Sentence("a.md", 15, "`` c"),
    ]


def test_the_readme_is_one_screen_and_leads_to_the_map() -> None:
    page = (ROOT / "README.md").read_text()

    assert len(page.splitlines()) <= 80
    assert "(docs/README.md)" in page
