"""Checks the sentences of the Markdown documents for length and for unclear constructions.

The constructions are those of `tests.tools.docstrings.BANNED`, such as a clause as a noun or a
person in place of a program. A sentence has at most `LONGEST` words. Code, commands, quotations and
URLs are not checked. `python -m tests.tools.documents` lists the faults by file; `--count` prints
only the number per file.
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
    ("CHANGELOG.md",)  # it quotes old names
)
KINDS = {kind: pattern for kind, pattern in BANNED.items() if not pattern.startswith(r"\A")}
"""The banned constructions for any sentence, without those for the first word of a docstring."""
CLAUSE = "a clause as a noun"
"""The construction that is allowed in a question."""
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
        line: Number of the first line of its paragraph, list entry or table row.
        text: The sentence, with `` in place of inline code and quotations.
    """

    path: str
    line: int
    text: str


def documents() -> list[Path]:
    """Return the paths of the documents to check: those in `PAGES` except `UNREAD`, sorted."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in UNREAD)


def sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a document; none spans two paragraphs, list entries or table cells."""
    where = path.relative_to(ROOT).as_posix()
    for line, paragraph in _paragraphs(path.read_text()):
        text = _QUOTED.sub("``", _LINK.sub(r"\1", _CODE.sub("``", paragraph)))
        for sentence in _END.split(text):
            if sentence.strip():
                yield Sentence(where, line, " ".join(sentence.split()))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each paragraph, list entry and table cell outside of code."""
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
    """Return each fault of a sentence: its kind and the words that form it."""
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
    """Print the faults of the documents and return the exit code: 1 if there are any, else 0."""
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
