"""tests/README.md names what is there, and whoever looks for a test finds it from there."""

# Subject: documents

import re

from tests.tools import subjects
from tests.tools.subjects import TESTS

PAGE = subjects.PAGE.read_text()


def _paths(text: str) -> list[str]:
    """What stands as code and has a slash but no blank: below `tests/`, or below its parent."""
    spans = re.findall(r"`([^`\n]+)`", text)
    return [span.rstrip("/") for span in spans if "/" in span and " " not in span]


def test_every_path_is_there() -> None:
    paths = _paths(PAGE)

    assert len(paths) > 200
    assert [p for p in paths if not any(any(at.glob(p)) for at in (TESTS, TESTS.parent))] == []


def test_every_folder_is_explained() -> None:
    folders = {at.name for at in TESTS.iterdir() if at.is_dir() and any(at.rglob("*.py"))}
    rows = set(re.findall(r"^\| `(\w+)/(?:\w+/)?` \|", PAGE, re.MULTILINE))

    assert rows | {"support", "tools"} == folders


def test_every_test_declares_subjects_that_the_table_has() -> None:
    """A line below the docstring, such as `# Subject: key-value`."""
    declared = subjects.subjects()
    known = subjects.SUBJECTS.keys()

    assert {path: names for path, names in declared.items() if not known >= set(names)} == {}
    assert [path for path, names in declared.items() if not names] == []
    assert known == {name for names in declared.values() for name in names}


def test_the_table_of_subjects_is_made_from_what_files_declare() -> None:
    assert PAGE.endswith("\n\n" + subjects.table()), "python -m tests.tools.subjects --write"
