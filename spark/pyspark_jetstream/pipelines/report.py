"""The report of a pipeline run: counts and notes, as text or JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """The report of one run of a pipeline. It contains no options, so no secrets.

    Attributes:
        pipeline: Name of the pipeline.
        kind: Kind of the pipeline, such as `archive`.
        read: Number of messages read.
        written: Number of messages or rows written.
        skipped: Number of messages not written, by reason.
        positions: Last sequence of completed batches, by stream.
        batches: Number of batches.
        seconds: Duration of the run in seconds.
        notes: Further remarks, as sentences.
        tables: Small tables to print: title, columns, rows.
        failed: Reason of an early end; empty after success.
        not_run: Reason why the pipeline did not run at all; empty if it did.
    """

    pipeline: str
    kind: str
    read: int = 0
    written: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    failed: str = ""
    not_run: str = ""

    def skip(self, reason: str, rows: int) -> None:
        """Add to the number of messages that were not written, by reason."""
        if rows:
            self.skipped[reason] = self.skipped.get(reason, 0) + rows

    def text(self) -> str:
        """Return the report as text for the terminal."""
        if self.not_run:
            return f"{self.kind} {self.pipeline}: not run, {self.not_run}"
        rate = f", {self.read / self.seconds:,.0f} a second" if self.seconds > 0 else ""
        lines = [
            f"{self.kind} {self.pipeline}: "
            + (f"failed: {self.failed}" if self.failed else "done"),
            f"  read     {self.read:>12,} in {self.batches} batches, {self.seconds:.1f} s{rate}",
            f"  written  {self.written:>12,}",
            f"  skipped  {sum(self.skipped.values()):>12,}" + _reasons(self.skipped),
        ]
        lines += [
            f"  {stream}: done through sequence {seq}" for stream, seq in self.positions.items()
        ]
        lines += [f"  {note}" for note in self.notes]
        for title, columns, rows in self.tables:
            lines += ["", f"  {title}", *("  " + line for line in grid(columns, rows))]
        return "\n".join(lines)

    def values(self) -> dict[str, Any]:
        """Return the report as a dictionary, for JSON."""
        return asdict(self)


def as_json(reports: list[Report]) -> str:
    """Return reports as one JSON document."""
    return json.dumps({"v": 1, "reports": [one.values() for one in reports]}, indent=2) + "\n"


def grid(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Format a table of texts as aligned lines; columns of numbers are right-aligned."""
    table = [columns, *rows]
    widths = [max(len(line[place]) for line in table) for place in range(len(columns))]
    right = [
        bool(rows) and all(_number(row[place]) for row in rows) for place in range(len(columns))
    ]
    return [
        "  ".join(
            cell.rjust(width) if of_numbers else cell.ljust(width)
            for cell, width, of_numbers in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in table
    ]


def _number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).replace("-", "", 1).isdigit()


def _reasons(skipped: dict[str, int]) -> str:
    return ": " + ", ".join(f"{n:,} {why}" for why, n in skipped.items()) if skipped else ""
