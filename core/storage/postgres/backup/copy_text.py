"""Parser of table rows in PostgreSQL's COPY text format.

The rows come out of pg_restore, which reads a backup archive, or out of a database (COPY TO).
"""

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from core.storage.postgres.backup.programs import find_restore, running

_PIECE = 1 << 20
_END = b"\\."
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Lines:
    """Joins pieces of output of any size and splits them into lines."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def split(self, piece: bytes) -> list[bytes]:
        """Return the lines that are completed by this piece, without their line feeds.

        An incomplete last line is kept for the next call.
        """
        first, end, rest = piece.partition(b"\n")
        self._begun.append(first)
        if not end:
            return []
        lines = rest.split(b"\n")
        found = [b"".join(self._begun), *lines[:-1]]
        self._begun = [lines[-1]]
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """The name and the columns of a table in a backup archive.

    `contents` yields its rows after it.
    """

    name: str
    columns: tuple[str, ...]


Item = Table | list[bytes]


async def contents(archive: Path) -> AsyncGenerator[Item, None]:
    """Yield each table of an archive (`Table`), followed by its rows as lists of COPY lines.

    Raises:
        OperatorError: pg_restore cannot read the archive, or is not installed.
    """
    command = [str(await find_restore()), "--data-only", "--schema=jetgate_store", "--file=-"]
    async with running([*command, str(archive)]) as process:
        assert process.stdout is not None, "it is a pipe"
        lines, is_inside = Lines(), False
        while piece := await process.stdout.read(_PIECE):
            found, at = lines.split(piece), 0
            while at < len(found):
                if not is_inside:
                    table = _begins(found[at])
                    at, is_inside = at + 1, table is not None
                    if table is not None:
                        yield table
                    continue
                try:
                    end = found.index(_END, at)
                except ValueError:
                    end = len(found)
                if end > at:
                    yield found[at:end]
                at, is_inside = end + 1, end == len(found)


def _begins(line: bytes) -> Table | None:
    """Return the table that a COPY line begins; None for any other line."""
    start, _, rest = line.partition(b"COPY jetgate_store.")
    if start or not rest.endswith(b") FROM stdin;"):
        return None
    name, _, columns = rest.removesuffix(b") FROM stdin;").partition(b" (")
    return Table(name.decode(), tuple(column.strip('"') for column in columns.decode().split(", ")))


def plain(field: bytes) -> bytes:
    """Return the value of a field of a COPY row, with the backslash escapes decoded."""
    if b"\\" not in field:
        return field
    return re.sub(rb"\\(.)", lambda hit: _ESCAPES.get(hit[1], hit[1]), field)
