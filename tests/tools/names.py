"""Checks names in the code for words that have a better-known synonym.

`banned_names.toml` lists the words, each with its replacement; `allowed_names.toml` lists the
exceptions, each with its reason. The check includes modules, classes, functions, methods,
parameters, attributes and constants of Python, metrics in `docs/operations`, and folders of tests.
It excludes local variables and test functions.

`python -m tests.tools.names` lists the findings, `--count` prints their number per word and
package, and `--unused` lists the exceptions that no name uses.
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
"""Kind of a function by the kind of a name assigned in the same scope."""
_SKIPPED = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Name:
    """A name with the place of its definition.

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
        """The element of `PLACES` that contains the file; `docs` for metrics."""
        return next((each for each in PLACES if self.path.startswith(f"{each}/")), "docs")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a name in snake_case or CamelCase, in lower case."""
        return tuple(word.lower() for word in _WORDS.findall(self.text))


@dataclass(frozen=True)
class Ban:
    """A word, or a sequence of words, that names must not contain.

    Attributes:
        word: The words in lower case, joined by `_`.
        say: Suggested replacements, as text in a finding.
        kinds: Kinds of names (`Name.kind`) to which the ban applies; empty for all.
        places: Patterns of paths to which the ban applies; empty for all.
        whole: True if the ban applies only to names with no other words.
    """

    word: str
    say: str
    kinds: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    whole: bool = False

    def covers(self, name: Name) -> bool:
        """Return True if the ban applies to `name` and the name contains the banned words."""
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
    """An exception: names that may contain a banned word.

    Attributes:
        word: The banned word (`Ban.word`).
        names: Patterns of the names, such as `log_level` or `*Post*`.
        places: Patterns of their paths.
        reason: The reason for the exception.
    """

    word: str
    names: tuple[str, ...]
    places: tuple[str, ...]
    reason: str

    def excuses(self, name: Name) -> bool:
        """Return True if the exception applies to `name` and its path."""
        return _matches(name.text, self.names) and _matches(name.path, self.places)


@dataclass
class Findings:
    """The result of a check.

    Attributes:
        found: Each name with a banned word, with the ban.
        used: The exceptions that applied to at least one name.
    """

    found: list[tuple[Name, Ban]] = field(default_factory=list)
    used: set[Exception_] = field(default_factory=set)

    def counts(self) -> Counter[tuple[str, str]]:
        """Return the number of findings by `Name.place` and banned word."""
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
    """Yield every name of the repository that the check includes."""
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
    """Yield the names defined in a Python file with this source text and path."""
    stem = Path(path).stem
    yield Name(path, 1, "module", Path(path).parent.name if stem == "__init__" else stem)
    yield from _defined(ast.parse(source), path, "constant")


def _defined(node: ast.AST, path: str, kind: str) -> Iterator[Name]:
    """Yield the names defined below `node`.

    `kind` is the kind of names assigned directly in it; empty for local variables.
    """
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
    """Return the banned words in some names, by default in all names of the repository."""
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
    """Print the findings and return the exit code: 1 if there are any, else 0."""
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
