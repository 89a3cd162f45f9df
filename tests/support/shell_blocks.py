"""The shell blocks of documents, in the order in which they are to be run.

A block is fenced as `sh`, or as `console`, of which the lines behind `$ ` are commands and the rest
shows what they may print. A comment on a line of its own, before a block or anywhere, says more:

    <!-- not run: REASON -->                   the next block is not run
    <!-- not run: REASON; instead: ACTION -->  and whoever runs the document does this in its place
    <!-- instead: ACTION -->                   the same without a block
    <!-- ends with 1 -->                       the exit code of the next block
    <!-- run: PAGE, PAGE -->                   the blocks of other documents come here
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMMENT = re.compile(r"<!-- (?:(not run|instead|run): (.+)|ends with (\d+)) -->")
_FENCE = re.compile(r"```(sh|console)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands to be run in one shell.

    Attributes:
        place: file and line.
        text: the commands.
        code: the exit code that they end with.
    """

    place: str
    text: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Instead:
    """What whoever runs the documents does himself; `place`: file and line."""

    place: str
    action: str


@dataclass(slots=True)
class Documents:
    """Documents that are read from one that names the others.

    Attributes:
        seen: the files that were read.
        not_run: the places of blocks that are not run, and the reasons.
    """

    seen: list[Path] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    def steps(self, path: Path) -> Iterator[Block | Instead]:
        """Yield what is to be run and done; documents that are not there are passed over."""
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
