"""A directory for the data of test servers: in memory where there is room, else on disk.

Most tests check the answers of a server, not the durability of a disk. On a disk that other
processes use, their duration would depend on that load.
"""

import os
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Bytes that must be free in memory.

Containers often have as little as 64 MiB, and PostgreSQL keeps its shared memory there too.
"""


def scratch(prefix: str, *, memory: Path = _MEMORY, room: int = _ROOM) -> Path:
    """Create a directory, which the caller removes.

    Args:
        prefix: Beginning of its name.
        memory: A file system in memory.
        room: Bytes that must be free in `memory`.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if _has(memory, room) else None))


def _has(memory: Path, room: int) -> bool:
    if not memory.is_dir() or not os.access(memory, os.W_OK | os.X_OK):
        return False
    free = os.statvfs(memory)
    return free.f_bavail * free.f_frsize >= room
