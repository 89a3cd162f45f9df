"""The output of the comparison with nats-server: rates, latencies, ratios, and floors.

A floor is a limit that a result must keep: a minimum for rates, a maximum for latencies."""

import os
import platform
from dataclasses import dataclass
from typing import TypedDict

from bench.load import Measure
from bench.row import Row

HIGHER = ("rate", "share", "up", "down")
"""Measures for which more is better; for all others, less is better."""


class Verdict(TypedDict):
    """The result of one floor: the measured value, the floor, and True if it is reached.

    A floor is a limit that a result must keep: a minimum for rates, a maximum for latencies.
    """

    value: float
    floor: float
    ok: bool


@dataclass(slots=True)
class Line:
    """One row of the comparison with nats-server, and the measured medians of each server."""

    row: Row
    medians: dict[str, Measure]


def verdicts(line: Line) -> dict[str, Verdict]:
    """Compare jetgate's results in a row with each floor of the row.

    A floor named after another server limits the ratio to that server: a minimum for rates, a
    maximum for latencies. A floor named after a measure limits jetgate's own value: a minimum for
    the measures in HIGHER, a maximum for the others.
    """
    found: dict[str, Verdict] = {}
    ours = line.medians.get("jetgate")
    for name, floor in line.row.floors.items():
        if ours is None:
            found[name] = {"value": 0.0, "floor": floor, "ok": False}
            continue
        unit = line.row.unit
        if name in ours:
            value, higher = ours[name], name in HIGHER
        elif name in line.medians:
            value, higher = ours[unit] / line.medians[name][unit], unit == "rate"
        else:
            continue
        found[name] = {
            "value": value,
            "floor": floor,
            "ok": value >= floor if higher else value <= floor,
        }
    return found


def machine() -> str:
    """Return a description of this machine: architecture, number of cores, Python version."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def print_header(runs: int, scale: float) -> None:
    """Print the machine, the number of runs and the scale."""
    what = f"medians of {runs}, {scale:g} of the messages"
    print(f"{machine()}; {what}; rates per second, latencies in us")


def print_line(line: Line) -> None:
    """Print one row."""
    cells = [f"{line.row.name:42}"]
    for name in line.row.peers:
        measure = line.medians.get(name)
        cells.append(f"{name} {_cell(measure) if measure else 'failed':<26}")
    for name, verdict in verdicts(line).items():
        word = "ok" if verdict["ok"] else "MISS"
        cells.append(f"{name}: {verdict['value']:.4g} ({verdict['floor']:g}) {word}")
    unfloored = [p for p in line.row.peers if p != "jetgate" and p not in line.row.floors]
    unit, ours = line.row.unit, line.medians.get("jetgate")
    for name in unfloored:
        if ours and name in line.medians:
            cells.append(f"{name}: {ours[unit] / line.medians[name][unit]:.4g}")
    print("  ".join(cells), flush=True)


def _cell(measure: Measure) -> str:
    parts = []
    for name, value in measure.items():
        text = f"{value:.2f}" if name in ("cost", "share") else f"{value:,.0f}"
        parts.append(text if name == "rate" else f"{name}={text}")
    return " ".join(parts)
