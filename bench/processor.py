"""Processor time of processes and their descendants, from /proc."""

import os
from pathlib import Path

from tests.support.jetgate import _descendants

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _ALL = (11, 12), (11, 12, 13, 14)  # user and system time, and those of ended children


def family(root: int) -> list[int]:
    """Return the ids of a process and of all its living descendants."""
    return [root, *_descendants(root)]


def own(pid: int) -> float:
    """Return the processor time of one process in seconds; 0 if it has ended."""
    return _seconds(pid, _OWN)


def used(root: int) -> float:
    """Return the processor time in seconds of a process and all its descendants, with ended
    ones.
    """
    return sum(_seconds(pid, _ALL) for pid in family(root))


def _seconds(pid: int, fields: tuple[int, ...]) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(words[field]) for field in fields) / _TICKS
