"""Writes the table of docs/performance.md from stored results: `python -m bench --table`."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "latest.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN = "<!-- made by python -m bench --table -->\n"
END = "<!-- end of what it made -->\n"

_RATES = ("rate", "open", "publish", "staged")
_SHARES = ("cost", "share")
_LABELS = {
    "rate": "",
    "open": "without them",
    "publish": "origin",
    "ping_p50": "PING p50",
    "ping_p99": "PING p99",
    "p50": "p50",
    "p99": "p99",
}
_HIDDEN = ("ping_max",)


def render(results: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    runs = f"medians of {results['runs']} runs, in which the servers took turns"
    lines = [
        f"{results['machine']}; {runs}.",
        "",
        "| row | nats-server | `always` | jetgate | ratio (floor) |",
        "|---|---|---|---|---|",
    ]
    for name, row in results["rows"].items():
        cells = [_cell(row["peers"].get(peer)) for peer in ("nats", "always", "jetgate")]
        lines.append(f"| {name} | {' | '.join(cells)} | {_ratios(row)} |")
    return "\n".join(lines) + "\n"


def rewrite(page: str, table: str) -> str:
    """Return a page with its table replaced."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, "the page has no place for a table"
    assert end, "the place for the table has no end"
    return f"{head}{begin}{table}{end}{tail}"


def update() -> None:
    """Write the table of the latest results into the page."""
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
    if value < 1000:
        return f"{value:.0f} us"
    return f"{value / 1e3:.1f} ms" if value < 1e6 else f"{value / 1e6:.1f} s"


def _ratios(row: dict[str, Any]) -> str:
    parts, unit = [], row["unit"]
    ours = row["peers"].get("jetgate")
    for peer, word in (("nats", ""), ("always", " x `always`")):
        if ours is None or peer not in row["peers"] or unit not in row["peers"][peer]:
            continue
        ratio = ours[unit] / row["peers"][peer][unit]
        floor = row["floors"].get(peer)
        bracket = f" ({floor['floor']:g})" if floor else ""
        parts.append(f"{ratio:.{0 if ratio >= 10 else 2}f}{word}{bracket}")
    parts += [
        f"{_LABELS.get(name, name) or 'rate'} ({_value(name, verdict['floor'])})"
        for name, verdict in row["floors"].items()
        if name not in ("nats", "always")
    ]
    return "; ".join(parts)
