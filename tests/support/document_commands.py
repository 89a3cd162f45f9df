"""Extraction of the blocks of shell commands from a document.

A block is fenced (as shell, or without a language) or indented by four spaces. It has commands if
one of its lines begins with `$ `, or if its first command begins with a name from `PROGRAMS`. A
comment `<!-- not run: REASON -->` before a block excludes it from runs by tests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = frozenset(
    (
        *("bash", "cat", "cd", "curl", "export", "for", "git", "head", "openssl", "printf", "sed"),
        *("sh", "ssh", "sudo", "systemctl", "tar", "timeout", "until", "wget"),
        *("apt", "apt-get", "docker", "helm", "kubectl", "make", "node", "npm", "npx", "pip"),
        *("createdb", "pg_basebackup", "pg_dump", "pg_restore", "psql", "pytest", "python"),
        *("jetgate", "jetgate-nats-server", "nats", "nats-server", "python3", "spark-submit"),
    )
)
_FENCE = re.compile(r"```(\w*)")
_ASSIGNED = re.compile(r"[A-Z_]+=(?:\$\(|\S* )")
_MARK = re.compile(r"<!-- not run: (.+?)(?:; instead: .+)? -->")
_SHELLS = ("sh", "bash", "shell", "console")


@dataclass(frozen=True, slots=True)
class CommandBlock:
    """The commands of one block of a document.

    Attributes:
        place: Document and line, such as `docs/http.md:36`.
        commands: One entry for each command, with its continuation lines.
        shows_prompts: True if commands follow `$ ` and the other lines are their output.
        reason: The reason in the comment that excludes the block; empty without a comment.
    """

    place: str
    commands: tuple[str, ...]
    shows_prompts: bool
    reason: str


def blocks_of(document: Path, name: str) -> Iterator[CommandBlock]:
    """Yield the blocks of a document that have commands; `name` names the document in `place`."""
    reason, at = "", 0
    lines = document.read_text().splitlines()
    while at < len(lines):
        begin, kind = at, None
        if fence := _FENCE.match(lines[at]):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].startswith("```"))
            block, at, kind = lines[at + 1 : end], end + 1, fence[1]
        elif lines[at].startswith("    ") and not (at and lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            block = [line.removeprefix("    ") for line in lines[begin:at]]
        else:
            if mark := _MARK.fullmatch(lines[at].strip()):
                reason = mark[1]
            elif lines[at].strip():
                reason = ""
            at += 1
            continue
        if (kind is None or kind in ("", *_SHELLS)) and (commands := _commands(block)):
            prompts = any(line.startswith("$ ") for line in block)
            yield CommandBlock(f"{name}:{begin + 1}", commands, prompts, reason)
        reason = ""


def _commands(block: list[str]) -> tuple[str, ...]:
    """Return the commands of a block; empty when the block is something else, such as JSON."""
    prompts = any(line.startswith("$ ") for line in block)
    found: list[str] = []
    continues = False
    for line in block:
        if continues:
            found[-1] += "\n" + line
        elif line.startswith("$ "):
            found.append(line[2:])
        elif not prompts and line.strip() and not line.startswith((" ", "#")):
            found.append(line)
        else:
            continue
        continues = line.endswith(("\\", "|"))
    if not found or not (prompts or _is_command(found[0])):
        return ()
    return tuple(found)


def _is_command(line: str) -> bool:
    words = line.split()
    if words[0] in ("for", "until"):  # JavaScript has these words too
        return "do" in words
    return words[0] in PROGRAMS or _ASSIGNED.match(line) is not None
