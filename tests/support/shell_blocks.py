"""The shell blocks of documents, in the order in which they run.

A block is fenced as `sh`, or as `console`. In a `console` block, lines after `$ ` are commands and
other lines show possible output. A comment on a line of its own, before a block or anywhere,
changes this:

    <!-- not run: REASON -->                   the next block does not run
    <!-- not run: REASON; instead: ACTION -->  and the runner performs this action instead
    <!-- instead: ACTION -->                   the same without a block
    <!-- ends with 1 -->                       the exit code of the next block
    <!-- run: PAGE, PAGE -->                   the blocks of other documents follow here
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMMENT = re.compile(r"<!-- (?:(not run|instead|run): (.+)|ends with (\d+)) -->")
_FENCE = re.compile(r"```(sh|console)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands to run in one shell.

    Attributes:
        place: File and line.
        text: The commands.
        code: The expected exit code.
    """

    place: str
    text: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Instead:
    """An action that the runner of the documents performs itself; `place` is file and line."""

    place: str
    action: str


@dataclass(slots=True)
class Documents:
    """Documents, read from one that names the others.

    Attributes:
        seen: The files that were read.
        not_run: The excluded blocks: place and reason.
    """

    seen: list[Path] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    def steps(self, path: Path) -> Iterator[Block | Instead]:
        """Yield blocks and actions in order; skip documents that do not exist."""
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
