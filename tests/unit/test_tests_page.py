"""tests/README.md names what is there, and whoever looks for a test finds it from there."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS / "README.md").read_text()
SUBJECTS = PAGE.partition("## Where the tests of a subject are\n")[2]


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


def test_every_test_is_found_by_its_subject() -> None:
    """A new file needs a place in the last table."""
    named = {at for path in _paths(SUBJECTS) for at in TESTS.glob(path)}
    files = [*TESTS.rglob("test_*.py"), *TESTS.glob("wire/*/*/*.txt")]

    assert [str(at.relative_to(TESTS)) for at in files if named.isdisjoint([at, *at.parents])] == []
