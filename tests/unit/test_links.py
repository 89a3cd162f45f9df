"""The links of the documents of the repository lead to files and headings that exist."""

# Subject: documents

import re
from glob import glob
from pathlib import Path

import pytest

from tests.support.jetgate import ROOT
from tests.tools.documents import UNREAD, documents

DOCUMENTS = sorted([*documents(), *(ROOT / name for name in UNREAD)])
MAP = ROOT / "docs/README.md"
_LINK = re.compile(r"\]\(([^()\s]*)\)")
TESTS_PAGE = ROOT / "tests/README.md"
"""Its paths are relative to the tests; `test_tests_page` checks them."""
_PLACES = ("core", "gateway", "jetgate", "dropin", "migrations", "spark", "sdks", "deploy", "tests")
_PATH = re.compile(
    r"`((?:core|gateway|jetgate|dropin|migrations|bench|examples|deploy)/[\w./*-]+)`"
)
_NOT_A_WORD = re.compile(r"[^\w\- ]")


def _links(document: Path) -> list[str]:
    return [link for link in _LINK.findall(document.read_text()) if "://" not in link]


def _anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {_NOT_A_WORD.sub("", title.strip().lower()).replace(" ", "-") for title in shown}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    absent = []
    for link in _links(document):
        path, _, anchor = link.partition("#")
        if path and not glob(path, root_dir=document.parent):
            absent.append(link)
        page = document.parent / path if path else document
        if anchor and page.suffix == ".md" and anchor not in _anchors(page):
            absent.append(link)

    assert absent == []


def test_the_map_has_each_page_once() -> None:
    linked = [(MAP.parent / link.partition("#")[0]).resolve() for link in _links(MAP)]
    pages = set(ROOT.glob("docs/**/*.md")) - set(ROOT.glob("docs/decisions/0*.md")) - {MAP}

    assert sorted(pages - set(linked)) == []
    assert sorted(page for page in pages if linked.count(page) > 1) == []


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_of_code_exists(document: Path) -> None:
    paths = _PATH.findall(document.read_text()) if document != TESTS_PAGE else []

    assert [path for path in paths if not glob(path, root_dir=ROOT)] == []


def test_every_page_that_code_refers_to_exists() -> None:
    """Help texts, errors, advice for problems and comments name pages, such as docs/sql.md."""
    sources = [path for place in _PLACES for path in (ROOT / place).rglob("*.*")]
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in sources
        if path.suffix in (".py", ".js", ".ts", ".yml", ".yaml", ".sql", ".service")
        and not {"node_modules", "dist", "__pycache__"} & set(path.parts)
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }

    assert len(named) > 20
    assert sorted((path, page) for path, page in named if not (ROOT / page).is_file()) == []
