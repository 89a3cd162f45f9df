"""Tables on a terminal."""

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return headings and rows as lines, in columns as wide as what is in them."""
    every = [headings, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)
