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
