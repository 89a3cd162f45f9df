"""Tables on a terminal."""

from collections.abc import Sequence

from jetgate.logs import on_one_line


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return headings and rows as lines, in columns as wide as what is in them.

    What would end a line, or move the cursor, is escaped: some names are chosen by others.
    """
    every = [headings, *([on_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in every) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)
