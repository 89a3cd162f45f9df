"""Directories for the data of test servers: in memory if enough is free, else on disk.

Most tests do not depend on the durability of a disk. Data in memory makes the duration of tests
independent of the load of the disk by other processes.
"""

import os
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Bytes that must be free in `/dev/shm`.

Containers often have only 64 MiB there, and PostgreSQL keeps its shared memory there too.
"""


def scratch(prefix: str, *, memory: Path = _MEMORY, room: int = _ROOM) -> Path:
    """Create a directory and return its path; the caller removes it.

    Args:
        prefix: Beginning of the directory's name.
        memory: Mount point of a file system in memory.
        room: Bytes that must be free in `memory`; otherwise the directory is on disk.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if _has(memory, room) else None))


def _has(memory: Path, room: int) -> bool:
    if not memory.is_dir() or not os.access(memory, os.W_OK | os.X_OK):
        return False
    free = os.statvfs(memory)
    return free.f_bavail * free.f_frsize >= room
