"""The sentences of the documents, and a check for constructions that none of them may have.

The rules are those of the docstrings (`tests.tools.docstrings`): no clause as a noun, no person
where a program is meant, no speech where data are sent. A sentence has at most `LONGEST` words.
`python -m tests.tools.documents` lists the faults by file; `--count` prints only the number per
file. Code, commands, quotations and addresses are not read.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tools.docstrings import BANNED, ROOT

LONGEST = 25
PAGES = (
    "*.md",
    "docs/**/*.md",
    "deploy/**/*.md",
    "examples/**/*.md",
    "sdks/*/*.md",
    "spark/*.md",
    "tests/*.md",
    "tests/histories/*.md",
)
UNREAD = frozenset(
    ("CHANGELOG.md",)  # a record of names, old ones included
)
KINDS = {kind: pattern for kind, pattern in BANNED.items() if not pattern.startswith(r"\A")}
"""The banned constructions that hold for every sentence."""
CLAUSE = "a clause as a noun"
"""The construction whose words a question may have."""
TOO_LONG = "a sentence of more than 25 words"

_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_QUOTED = re.compile(r"\"[^\"\n]*\"|<[^>]+>|\bhttps?://\S+")
_END = re.compile(r"(?<=[.!?])[)*_]*\s+(?=[^a-z\s]|nats-server|jetgate|uvicorn)")
_MARKER = re.compile(r"^\s*(?:[-*]|\d+\.)\s+|^#+\s+|^>\s?")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document.

    Attributes:
        path: Path of the document, relative to the repository.
        line: First line of the paragraph, list entry or table row.
        text: The words; inline code and quotations are replaced by ``.
    """

    path: str
    line: int
    text: str


def documents() -> list[Path]:
    """Return the documents that are written by hand."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in UNREAD)


def sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a document; a table cell and a list entry are paragraphs."""
    where = path.relative_to(ROOT).as_posix()
    for line, paragraph in _paragraphs(path.read_text()):
        text = _QUOTED.sub("``", _LINK.sub(r"\1", _CODE.sub("``", paragraph)))
        for sentence in _END.split(text):
            if sentence.strip():
                yield Sentence(where, line, " ".join(sentence.split()))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of paragraphs, list entries and table cells; no blocks of code."""
    held: list[str] = []
    begin, fenced, after_blank = 0, False, True
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    for at, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        indented = after_blank and line.startswith("    ") and not _MARKER.match(line)
        starts = _MARKER.match(line) is not None
        table = line.startswith("|")
        if held and (fence or fenced or not line.strip() or starts or table):
            yield begin, " ".join(held)
            held = []
        after_blank = not line.strip() or (after_blank and indented)
        if fence:
            fenced = not fenced
        elif table and not fenced:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from ((at, cell) for cell in cells if re.search(r"\w", cell))
        elif not fenced and not indented and line.strip():
            if not held:
                begin = at
            held.append(_MARKER.sub("", line).strip())


def faults(sentence: Sentence) -> list[tuple[str, str]]:
    """Return the faults of a sentence, each with the words that form it."""
    text = sentence.text.lower()
    found = [
        (kind, match[0])
        for kind, pattern in KINDS.items()
        if not (kind == CLAUSE and text.endswith("?"))
        for match in re.finditer(pattern, text)
    ]
    words = len(re.findall(r"[\w`][\w`'/.-]*", sentence.text))
    if words > LONGEST:
        found.append((TOO_LONG, f"{words}: {sentence.text[:60]}"))
    return found


def main() -> int:
    """List the faults of the documents; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", help="documents; all of them")
    parser.add_argument("--count", action="store_true", help="only how many each file has")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in [Path(place).resolve() for place in options.places] or documents():
        for sentence in sentences(path):
            for kind, words in faults(sentence):
                counts[sentence.path] += 1
                if not options.count:
                    print(f"{sentence.path}:{sentence.line}: {kind}: {words!r}")
    if options.count:
        for name, count in counts.most_common():
            print(f"{count:4} {name}")
    print(f"{counts.total()} in {len(counts)} files")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
