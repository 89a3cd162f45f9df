"""Tables of text for the terminal."""

from collections.abc import Sequence

from core.runtime.log_lines import on_one_line


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format headings and rows as lines with aligned columns.

    Control characters in cells are escaped, because names of clients may contain them.
    """
    every = [headings, *([on_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in every) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)
