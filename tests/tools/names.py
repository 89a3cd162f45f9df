"""Names in the code, and a check that none of them has a word with a better-known synonym.

`banned_names.toml` lists the words, each with its replacement; `allowed_names.toml` the exceptions,
each with its reason. Checked are modules, classes, functions, methods, parameters, attributes and
constants of Python, metrics in the pages of operations, and folders of tests. Local variables are
not; nor are the names of tests, which are sentences.

`python -m tests.tools.names` lists the findings, `--count` their number per word and package, and
`--unused` the exceptions that excuse nothing.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from tests.tools.docstrings import GENERATED, ROOT

PLACES = (
    "core",
    "gateway",
    "jetgate",
    "dropin",
    "migrations",
    "spark",
    "sdks/python",
    "bench",
    "tests",
)
BANNED = Path(__file__).with_name("banned_names.toml")
ALLOWED = Path(__file__).with_name("allowed_names.toml")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]|[0-9]+")
_METRIC = re.compile(r"`(jetgate_[a-z_]+)")
_FUNCTIONS = {"attribute": "method", "constant": "function", "": "closure"}
"""Kinds of functions by the kind of names assigned beside them."""
_SKIPPED = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Name:
    """A name where it is defined.

    Attributes:
        path: Path of the file or folder, relative to the repository.
        line: Line of the definition, 1 for modules and folders.
        kind: One of `module`, `class`, `function`, `method`, `closure`, `parameter`,
            `attribute`, `constant`, `metric` and `folder`.
        text: The name itself.
    """

    path: str
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        """The element of `PLACES` with the file, `docs` for metrics."""
        return next((each for each in PLACES if self.path.startswith(f"{each}/")), "docs")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a name in snake_case or CamelCase, in lower case."""
        return tuple(word.lower() for word in _WORDS.findall(self.text))


@dataclass(frozen=True)
class Ban:
    """A word, or several in a row, that no name may have.

    Attributes:
        word: The words in lower case, joined by `_`.
        say: Replacements, for the reader of a finding.
        kinds: Kinds of names (`Name.kind`) with the ban; empty for all.
        places: Patterns of paths with the ban; empty for all.
        whole: True if the ban is for the whole name only, apart from underscores at its start.
    """

    word: str
    say: str
    kinds: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    whole: bool = False

    def covers(self, name: Name) -> bool:
        """Return True if `name` has the banned word and none of the limits excludes it."""
        if self.kinds and name.kind not in self.kinds:
            return False
        if self.places and not _matches(name.path, self.places):
            return False
        wanted, words = tuple(self.word.split("_")), name.words
        if self.whole:
            return words == wanted
        return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


@dataclass(frozen=True)
class Exception_:
    """Names that may have a banned word.

    Attributes:
        word: The banned word (`Ban.word`).
        names: Patterns of the names, such as `log_level` or `*Post*`.
        places: Patterns of their paths.
        reason: Why the word is the right one there.
    """

    word: str
    names: tuple[str, ...]
    places: tuple[str, ...]
    reason: str

    def excuses(self, name: Name) -> bool:
        """Return True if the exception is for `name`."""
        return _matches(name.text, self.names) and _matches(name.path, self.places)


@dataclass
class Findings:
    """Names with a banned word.

    Attributes:
        found: Each name with the ban that it breaks.
        used: The exceptions that excused a name.
    """

    found: list[tuple[Name, Ban]] = field(default_factory=list)
    used: set[Exception_] = field(default_factory=set)

    def counts(self) -> Counter[tuple[str, str]]:
        """Return the number of findings by place and word."""
        return Counter((name.place, ban.word) for name, ban in self.found)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def bans() -> list[Ban]:
    """Return the banned words of `banned_names.toml`."""
    return [
        Ban(
            word,
            row["say"],
            tuple(row.get("kinds", ())),
            tuple(row.get("places", ())),
            row.get("whole", False),
        )
        for row in tomllib.loads(BANNED.read_text())["ban"]
        for word in row["words"]
    ]


def exceptions() -> list[Exception_]:
    """Return the exceptions of `allowed_names.toml`."""
    return [
        Exception_(row["word"], tuple(row["names"]), tuple(row["places"]), row["reason"])
        for row in tomllib.loads(ALLOWED.read_text()).get("allow", [])
    ]


def names() -> Iterator[Name]:
    """Return every name of the repository that the check is for."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            relative = path.relative_to(ROOT).as_posix()
            if not relative.startswith(GENERATED) and _SKIPPED.isdisjoint(path.parts):
                yield from names_in(path.read_text(), relative)
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.is_dir() and _SKIPPED.isdisjoint(path.parts):
            yield Name(path.relative_to(ROOT).as_posix(), 1, "folder", path.name)
    for path in [ROOT / "docs/operations.md", *sorted((ROOT / "docs/operations").rglob("*.md"))]:
        found = set(_METRIC.findall(path.read_text()))
        for text in sorted(found):
            yield Name(path.relative_to(ROOT).as_posix(), 1, "metric", text)


def names_in(source: str, path: str) -> Iterator[Name]:
    """Return the names that the Python file `path` with the text `source` defines."""
    stem = Path(path).stem
    yield Name(path, 1, "module", Path(path).parent.name if stem == "__init__" else stem)
    yield from _defined(ast.parse(source), path, "constant")


def _defined(node: ast.AST, path: str, kind: str) -> Iterator[Name]:
    """Return the names defined below `node`; `kind` is that of names assigned directly."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef():
                yield Name(path, child.lineno, "class", child.name)
                yield from _defined(child, path, "attribute")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not child.name.startswith("test_"):
                    yield Name(path, child.lineno, _FUNCTIONS[kind], child.name)
                yield from _defined(child, path, "")
            case ast.arg():
                yield Name(path, child.lineno, "parameter", child.arg)
            case ast.Name(ctx=ast.Store()) if kind:
                yield Name(path, child.lineno, kind, child.id)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                yield Name(path, child.lineno, "attribute", child.attr)
            case ast.comprehension() | ast.Lambda():
                yield from _defined(child, path, "")
            case _:
                yield from _defined(child, path, kind)


def check(named: Iterable[Name] | None = None) -> Findings:
    """Find banned words in `named`, by default in all names of the repository."""
    allowed, result = exceptions(), Findings()
    by_first_word = defaultdict(list)
    for ban in bans():
        by_first_word[ban.word.partition("_")[0]].append(ban)
    for name in names() if named is None else named:
        for ban in chain.from_iterable(by_first_word.get(word, ()) for word in set(name.words)):
            if ban.covers(name):
                excuse = [each for each in allowed if each.word == ban.word and each.excuses(name)]
                result.used.update(excuse)
                if not excuse:
                    result.found.append((name, ban))
    return result


def main() -> int:
    """List the findings; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", help="only paths that begin with one of these")
    parser.add_argument("--count", action="store_true", help="only numbers, per word and package")
    parser.add_argument("--unused", action="store_true", help="only exceptions without effect")
    options = parser.parse_args()
    result = check()
    result.found = [
        each for each in result.found if each[0].path.startswith(tuple(options.places or [""]))
    ]
    counts = result.counts()
    if options.unused:
        unused = [each for each in exceptions() if each not in result.used]
        for each in unused:
            print(f"{each.word}: {', '.join(each.names)} in {', '.join(each.places)}")
        return 1 if unused else 0
    if options.count:
        for (place, word), count in sorted(counts.items(), key=lambda each: (each[0][0], -each[1])):
            print(f"{count:4} {place:12} {word}")
    else:
        for name, ban in result.found:
            place = f"{name.path}:{name.line}"
            print(f"{place}: {name.kind} {name.text}: {ban.word!r}; say {ban.say}")
    print(f"{counts.total()} names")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
