"""Checks docstrings for constructions that require a second reading, such as a clause as a noun.

`BANNED` has the constructions. `python -m tests.tools.docstrings` lists their uses by file, in the
docstrings of modules and of public classes, functions and methods; `--count` prints only the
number per file. `python -m tests.tools.sample_docstrings` draws random docstrings for a reader.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("core", "gateway", "jetgate", "dropin", "migrations", "spark", "sdks/python")
SUPPORT = "tests/support"
GENERATED = ("sdks/python/jetgate_client/generated", "sdks/typescript/generated")

BANNED = {
    "a clause as a noun": r"\b(what|whatever|whoever|who|whom)\b",
    "a person where a program is meant": r"\b(he|him|his|she|her)\b",
    "speech where data are sent": r"\b(say|says|said|tell|tells|told|hear|hears|heard)\b",
    "a place or a time that is not named": r"\b((from|to) (there|here)\b(?! on\b)|anew\b)",
    "a person where a user or a node is meant": r"\b(somebody|everybody|anybody)\b",
    "a beginning without a subject": r"\A(it|they|them|this|that|these|those|there|whether|how"
    r"|which|when|where|why)\b",
}
"""Each construction with the pattern that finds it in lower-case text without quotations."""
_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"\n]*\"|'[^'\n]{2,}'", re.DOTALL)


@dataclass(frozen=True)
class Docstring:
    """A docstring with its place and name.

    Attributes:
        path: Path of the file, relative to the repository.
        line: First line of the docstring.
        name: Dotted name of the class or function inside the file; empty for the module.
        text: The docstring without indentation.
    """

    path: str
    line: int
    name: str
    text: str


def files(*places: str) -> Iterator[Path]:
    """Yield the Python files in folders or at paths below the repository, by default of `PLACES`.

    Generated files are left out.
    """
    for place in places or PLACES:
        where = ROOT / place
        for path in [where] if where.is_file() else sorted(where.rglob("*.py")):
            relative = path.relative_to(ROOT).as_posix()
            if not relative.startswith(GENERATED) and "__pycache__" not in relative:
                yield path


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstring of a Python file and those of its public classes, functions, methods."""
    tree = ast.parse(path.read_text())
    where = path.relative_to(ROOT).as_posix()
    yield from _of(tree, where, ())


def _of(node: ast.AST, path: str, names: tuple[str, ...]) -> Iterator[Docstring]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            body: list[ast.stmt] = node.body
            yield Docstring(path, body[0].lineno, ".".join(names), text)
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            name = getattr(child, "name", "_")
            if not name.startswith("_"):
                yield from _of(child, path, (*names, name))


def faults(docstring: Docstring) -> list[tuple[str, str]]:
    """Return each banned construction in a docstring: its name in `BANNED` and the words found."""
    text = _QUOTED.sub("``", docstring.text).lower()
    found = []
    for kind, pattern in BANNED.items():
        found += [(kind, match[0]) for match in re.finditer(pattern, text)]
    return found


def main() -> int:
    """Print the banned constructions and return the exit code: 1 if there are any, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", help="folders or files; all of the product")
    parser.add_argument("--count", action="store_true", help="only how many each file has")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in files(*options.places):
        for docstring in docstrings(path):
            for kind, words in faults(docstring):
                counts[docstring.path] += 1
                if not options.count:
                    place = f"{docstring.path}:{docstring.line}"
                    print(f"{place}: {docstring.name}: {kind}: {words!r}")
    if options.count:
        for name, count in counts.most_common():
            print(f"{count:4} {name}")
    print(f"{counts.total()} in {len(counts)} files")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
