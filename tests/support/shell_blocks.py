"""Extraction of the shell blocks that tests run from documents, in the order of the run.

A block is fenced as `sh` or `console`. In a `console` block, lines after `$ ` are commands; other
lines show possible output. Comments on lines of their own change the run:

    <!-- not run: REASON -->                   the next block does not run
    <!-- not run: REASON; instead: ACTION -->  the test performs ACTION in place of the next block
    <!-- instead: ACTION -->                   the test performs ACTION
    <!-- ends with 1 -->                       the next block has exit code 1
    <!-- run: PAGE, PAGE -->                   the blocks of these documents follow
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMMENT = re.compile(r"<!-- (?:(not run|instead|run): (.+)|ends with (\d+)) -->")
_FENCE = re.compile(r"```(sh|console)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of one block, to run in one shell.

    Attributes:
        place: File and line of the block, such as `http.md:36`.
        text: The commands.
        code: The expected exit code.
    """

    place: str
    text: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Instead:
    """An action that the test performs itself; `place` is file and line of its comment."""

    place: str
    action: str


@dataclass(slots=True)
class Documents:
    """Documents that are read one after the other, from one that names the others.

    Attributes:
        seen: The documents read so far.
        not_run: Reason of each excluded block, by its place.
    """

    seen: list[Path] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    def steps(self, path: Path) -> Iterator[Block | Instead]:
        """Yield the blocks and actions of a document and of the documents that it names, in order.

        Named documents that do not exist are skipped.
        """
        self.seen.append(path)
        lines = path.read_text().splitlines(keepends=True)
        reason, code, at = "", 0, 0
        while at < len(lines):
            place = f"{path.name}:{at + 1}"
            if fence := _FENCE.fullmatch(lines[at]):
                end = lines.index("```\n", at)
                text = _commands(fence[1], lines[at + 1 : end])
                if reason:
                    self.not_run[place] = reason
                else:
                    yield Block(place, text, code)
                reason, code, at = "", 0, end
            elif comment := _COMMENT.fullmatch(lines[at].strip()):
                kind, said, number = comment.groups()
                if kind == "run":
                    for name in said.split(", "):
                        if (other := (path.parent / name).resolve()).exists():
                            yield from self.steps(other)
                elif kind == "not run":
                    reason, _, said = said.partition("; instead: ")
                code = int(number or 0)
                if kind in ("not run", "instead") and said:
                    yield Instead(place, said)
            at += 1


def _commands(fence: str, lines: list[str]) -> str:
    if fence == "sh":
        return "".join(lines)
    return "".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
