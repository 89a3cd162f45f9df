"""Tables on a terminal."""

from collections.abc import Sequence

from core.runtime.log_lines import on_one_line


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return headings and rows as lines with aligned columns.

    Control characters in names from clients are escaped, as in the log.
    """
    every = [headings, *([on_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in every) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)
