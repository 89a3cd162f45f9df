"""Finds the embedded PostgreSQL that a running `jetgate dev` has started in a data directory."""

import os
from pathlib import Path
from urllib.parse import quote

from core.errors import OperatorError
from core.storage.postgres.embedded.directory import open_path, socket_place
from core.storage.postgres.embedded.template import DATABASE, SUPERUSER

_SOCKET_LINE = 4  # of postmaster.pid
_DATA_DIRECTORY = "."


def running_dsn(directory: Path) -> str:
    """Return a connection string for the database that `jetgate dev` runs in a data directory.

    Raises:
        OperatorError: No PostgreSQL server runs in the directory.
    """
    try:
        pid_file = directory / "pg" / "postmaster.pid"
        lines = pid_file.read_text(errors="replace").splitlines()
        sockets = lines[_SOCKET_LINE].strip()
        if sockets == _DATA_DIRECTORY:
            data = Path(os.path.abspath(directory)) / "pg"
            # Stays open until this process ends: the connection string may go through it.
            sockets = socket_place(data, open_path(data))
    except (OSError, IndexError):
        sockets = ""
    if not sockets:
        raise OperatorError(
            f"no jetgate dev runs in {directory}: start it, name its --data, or give --dsn"
        )
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(sockets)}"
