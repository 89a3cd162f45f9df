"""Finds the embedded PostgreSQL that another jetgate runs in a data directory."""

from pathlib import Path

from core.errors import OperatorError
from core.storage.postgres.embedded.template import DATABASE, SUPERUSER

_SOCKET_LINE = 4  # of postmaster.pid


def running_dsn(directory: Path) -> str:
    """Return a connection string of the database that `jetgate dev` runs in a directory.

    Raises:
        OperatorError: none runs there.
    """
    try:
        lines = (directory / "pg" / "postmaster.pid").read_text().splitlines()
        sockets = lines[_SOCKET_LINE].strip()
    except (OSError, IndexError):
        sockets = ""
    if not sockets:
        raise OperatorError(
            f"no jetgate dev runs in {directory}: start it, name its --data, or give --dsn"
        )
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={sockets}"
