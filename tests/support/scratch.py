"""Where servers of tests keep their data: in memory where there is room, else on the disk.

Most tests ask what a server answers, not whether a disk keeps it, and a disk that is busy with
something else would decide how long they take.
"""

import os
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Bytes that must be free there: containers often have as little as 64 MiB, and PostgreSQL keeps
its shared memory there too."""


def scratch(prefix: str, *, memory: Path = _MEMORY, room: int = _ROOM) -> Path:
    """Make a directory that the caller removes.

    Args:
        prefix: How its name begins.
        memory: A file system in memory.
        room: Bytes that must be free in it.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if _has(memory, room) else None))


def _has(memory: Path, room: int) -> bool:
    if not memory.is_dir() or not os.access(memory, os.W_OK | os.X_OK):
        return False
    free = os.statvfs(memory)
    return free.f_bavail * free.f_frsize >= room
