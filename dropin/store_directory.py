"""The store directory of an embedded PostgreSQL: creation, and check for write access."""

import os
import tempfile
from pathlib import Path

from core.errors import OperatorError
from dropin.ports_file import reason_of


def use_directory(directory: Path) -> None:
    """Create the directory if it is missing, else check that it is writable.

    Raises:
        OperatorError: The directory cannot be created or written; the text is nats-server's.
    """
    try:
        directory.stat()
    except FileNotFoundError:
        _make(directory)
        return
    except OSError:  # a parent is a file
        pass
    if not os.path.isdir(directory):
        raise OperatorError("storage directory is not a directory")
    try:
        tempfile.TemporaryFile(prefix="_test_", dir=directory).close()
    except OSError as error:
        raise OperatorError("storage directory is not writable") from error


def _make(directory: Path) -> None:
    # Under root, PostgreSQL runs as another user, which must be able to enter the directory.
    mode = 0o755 if os.geteuid() == 0 else 0o700
    missing = [place for place in (directory, *directory.parents) if not os.path.exists(place)]
    for place in reversed(missing):
        try:
            place.mkdir(mode, exist_ok=True)
        except OSError as error:
            reason = f"mkdir {place}: {reason_of(error)}"
            raise OperatorError(f"could not create storage directory - {reason}") from error
