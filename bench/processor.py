"""What processes have used of the processor."""

import os
from pathlib import Path

from tests.support.jetgate import _descendants

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _ALL = (11, 12), (11, 12, 13, 14)  # user and system, and those of children that have ended


def family(root: int) -> list[int]:
    """Return a process and all that it has started and that live."""
    return [root, *_descendants(root)]


def own(pid: int) -> float:
    """Return the seconds of a processor that one process has used; 0: it has ended."""
    return _seconds(pid, _OWN)


def used(root: int) -> float:
    """Return the seconds of a processor that a process and all it has ever started have used."""
    return sum(_seconds(pid, _ALL) for pid in family(root))


def _seconds(pid: int, fields: tuple[int, ...]) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(words[field]) for field in fields) / _TICKS
