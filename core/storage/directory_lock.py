"""The lock of a data directory (`DIR/lock`, flock): one process at a time uses the directory.

A process locks the directory before any other work, so a second process ends without writing to it.
The module has few imports, so that the lock is taken early.
"""

import fcntl
import os
from pathlib import Path

from core.errors import OperatorError
from core.storage.directory_owner import refuse_foreign


def lock_directory(directory: Path) -> int:
    """Create a data directory if needed and lock it; return the file descriptor of the lock.

    Raises:
        OperatorError: The directory is unusable, owned by another user, or locked by another
            jetgate.
    """
    try:
        # Under root, PostgreSQL runs as another user, which must be able to enter.
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


def is_locked(directory: Path) -> bool:
    """Return whether a running process holds the lock of a data directory."""
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
