"""The tables in docs/performance.md, written from stored results: `python -m bench --table`."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "latest.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN = "<!-- made by python -m bench --table -->\n"
END = "<!-- end of what it made -->\n"

_RATES = ("rate", "open", "publish", "staged")
_SHARES = ("cost", "share")
_SPEEDS = ("up", "down")
_SIZES = ("grown",)
_PEERS = {"nats": "nats-server", "empty": "empty route"}
_LABELS = {
    "rate": "",
    "open": "without them",
    "publish": "origin",
    "ping_p50": "PING p50",
    "ping_p99": "PING p99",
    "p50": "p50",
    "p99": "p99",
    "up_p99": "p99 while up",
    "down_p99": "p99 while down",
    "all": "all served after",
    "opened": "opened in",
    "server": "server",
}
_HIDDEN = ("ping_max",)


def render(results: dict[str, Any]) -> str:
    """Return two tables in Markdown: the rows of NATS, then those of HTTP."""
    usual = results["runs"]
    runs = f"medians of {usual} runs or of the number in a row, in which the servers took turns"
    lines = [
        f"{results['machine']}; {runs}.",
        "",
        "| row | nats-server | `always` | jetgate | ratio (floor) |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {_title(name, row, usual)} | {_cells(row, 'nats', 'always', 'jetgate')} | "
        f"{_ratios(row)} |"
        for name, row in results["rows"].items()
        if not row.get("table")
    ]
    lines += ["", "| row | beside | jetgate | ratio (floor) |", "|---|---|---|---|"]
    lines += [
        f"| {_title(name, row, usual)} | {_beside(row)} | {_cells(row, 'jetgate')} | "
        f"{_ratios(row)} |"
        for name, row in results["rows"].items()
        if row.get("table")
    ]
    return "\n".join(lines) + "\n"


def _title(name: str, row: dict[str, Any], usual: int) -> str:
    runs = row.get("runs", usual)
    return name if runs == usual else f"{name} (of {runs})"


def _cells(row: dict[str, Any], *peers: str) -> str:
    return " | ".join(_cell(row["peers"].get(peer)) for peer in peers)


def _beside(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{title} {_cell(row['peers'][peer])}"
        for peer, title in _PEERS.items()
        if peer in row["peers"]
    )


def rewrite(page: str, table: str) -> str:
    """Return the Markdown text of a page with its tables replaced."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, "the page has no place for a table"
    assert end, "the place for the table has no end"
    return f"{head}{begin}{table}{end}{tail}"


def update() -> None:
    """Write the tables of `results/latest.json` into docs/performance.md."""
    table = render(json.loads(RESULTS.read_text()))
    PAGE.write_text(rewrite(PAGE.read_text(), table))


def _cell(measure: dict[str, float] | None) -> str:
    if measure is None:
        return ""
    shown = [(name, value) for name, value in measure.items() if name not in _HIDDEN]
    return ", ".join(
        f"{_LABELS.get(name, name)} {_value(name, value)}".strip() for name, value in shown
    )


def _value(name: str, value: float) -> str:
    if name in _RATES:
        return f"{value:,.0f}"
    if name in _SHARES:
        return f"{value:.2f}"
    if name in _SPEEDS:
        return f"{value:.0f} MB/s"
    if name in _SIZES:
        return f"{value / (1 << 20):.0f} MiB"
    if value < 1000:
        return f"{value:.0f} us"
    return f"{value / 1e3:.1f} ms" if value < 1e6 else f"{value / 1e6:.1f} s"


def _ratios(row: dict[str, Any]) -> str:
    parts, unit = [], row["unit"]
    ours = row["peers"].get("jetgate")
    for peer, word in (("nats", ""), ("always", " x `always`"), ("empty", "")):
        if ours is None or peer not in row["peers"] or unit not in row["peers"][peer]:
            continue
        ratio = ours[unit] / row["peers"][peer][unit]
        floor = row["floors"].get(peer)
        bracket = f" ({floor['floor']:g})" if floor else ""
        parts.append(f"{ratio:.{0 if ratio >= 10 else 2}f}{word}{bracket}")
    parts += [
        f"{_LABELS.get(name, name) or 'rate'} ({_value(name, verdict['floor'])})"
        for name, verdict in row["floors"].items()
        if name not in ("nats", "always", "empty")
    ]
    return "; ".join(parts)
