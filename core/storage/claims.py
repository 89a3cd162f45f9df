"""A directory that one process uses alone.

It is claimed before anything else is begun, with few imports: who may not use it writes nothing.
"""

import fcntl
import os
from pathlib import Path

from core.errors import OperatorError
from core.storage.directory_owner import refuse_foreign


def claim(directory: Path) -> int:
    """Create a data directory if need be and lock it; return the lock's file descriptor.

    Raises:
        OperatorError: it cannot be used, another user made it, or another jetgate uses it.
    """
    try:
        # Under root, PostgreSQL runs as another user, who must be able to enter.
        directory.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        refuse_foreign(directory)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
        os.close(lock)
        raise OperatorError(
            f"data directory {directory} is in use by another jetgate"
            + (f" (process {holder})" if holder else "")
        ) from None
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:  # a full disk
        os.close(lock)
        raise _unusable(directory, error) from error
    return lock


def is_claimed(directory: Path) -> bool:
    """Whether a process uses a data directory now."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _unusable(directory: Path, error: OSError) -> OperatorError:
    reason = (error.strerror or str(error)).lower()
    return OperatorError(f"cannot use data directory {directory}: {reason}")
