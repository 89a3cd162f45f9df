"""No docstring of the product has a construction that costs a second reading."""

# Subject: documents

from pathlib import Path

import pytest

from tests.tools.docstrings import Docstring, docstrings, faults, files


def test_docstrings_have_no_banned_construction() -> None:
    found = [
        f"{each.path}:{each.line}: {kind}: {words!r}"
        for path in files()
        for each in docstrings(path)
        for kind, words in faults(each)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Return what is left.", ["what"]),
        ("It returns the rest.", ["it"]),
        ("Whether he is told.", ["he", "told", "whether"]),
        ("Return the rest, as `what` is said in `told`.", ["said"]),
        (
            "Map a subject from here to there, anew for everybody.",
            ["from here", "to there", "anew", "everybody"],
        ),
        ("Return the messages that are left.", []),
        ('Return the member "who" of the document.', []),
    ],
)
def test_constructions_are_found_outside_of_quotations(text: str, words: list[str]) -> None:
    docstring = Docstring("a.py", 1, "a", text)

    assert sorted(found for _, found in faults(docstring)) == sorted(words)


def test_private_definitions_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tools.docstrings.ROOT", tmp_path)
    module = tmp_path / "a.py"
    module.write_text(
        '"""M."""\n\n\ndef _a() -> None:\n    """What."""\n\n\ndef b() -> None:\n    """B."""\n'
    )

    assert [(each.name, each.text) for each in docstrings(module)] == [("", "M."), ("b", "B.")]
