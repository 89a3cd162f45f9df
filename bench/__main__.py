"""Run the comparison and print it: `python -m bench`; `--help` says what can be chosen."""

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

from bench.load import Load, Measure
from bench.peers import NAMES, Peer, started
from bench.report import Line, print_header, print_line, verdicts
from bench.rows import ROWS, Row
from bench.wire import Connection, LoadError

RESULTS = Path(__file__).parent / "results" / "latest.json"
SETTLE = 0.5  # seconds of peace between two rows


def forget(peer: Peer) -> None:
    """Delete what a row has stored."""
    connection = Connection(peer.address)
    for name in connection.api("STREAM.NAMES")["streams"] or []:
        connection.api(f"STREAM.DELETE.{name}")
    connection.close()


def measure(row: Row, peers: dict[str, Peer], runs: int, scale: float) -> dict[str, Measure]:
    """Run one row on its peers, turn and turn about; medians per peer."""
    loads: dict[str, Load] = {}
    failed: dict[str, str] = {}
    measures: dict[str, list[Measure]] = {name: [] for name in row.peers if name in peers}
    for run in range(runs):
        for name in measures:
            if name in failed:
                continue
            try:
                if name not in loads:
                    loads[name] = row.load(name)
                    loads[name].prepare(peers[name], scale)
                measures[name].append(loads[name].run(peers[name], scale, run))
            except (LoadError, OSError, AssertionError) as error:
                failed[name] = str(error)[:300]
                print(f"{row.name}: {name} failed: {failed[name]}", file=sys.stderr)
    for name in measures:
        if name not in failed:
            forget(peers[name])
    time.sleep(SETTLE)
    return {
        name: {key: median(measure[key] for measure in taken) for key in taken[0]}
        for name, taken in measures.items()
        if taken and name not in failed
    }


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs per row; medians are shown")
    parser.add_argument("--quick", action="store_true", help="one run, a quarter of the messages")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this")
    parser.add_argument("--peers", default=",".join(NAMES), help="of nats, always, jetgate")
    parser.add_argument("--check", action="store_true", help="fail when a floor is missed")
    return parser.parse_args()


def main() -> int:
    """Measure every chosen row; 1 when `--check` is given and a floor is missed."""
    chosen = options()
    runs, scale = (1, 0.25) if chosen.quick else (chosen.runs, 1.0)
    rows = [r for r in ROWS if not chosen.only or any(part in r.name for part in chosen.only)]
    lines: list[Line] = []
    with started(tuple(chosen.peers.split(","))) as peers:
        print_header(runs, scale)
        for row in rows:
            lines.append(Line(row, measure(row, peers, runs, scale)))
            print_line(lines[-1])
    RESULTS.parent.mkdir(exist_ok=True)
    table = {line.row.name: {"peers": line.medians, "floors": verdicts(line)} for line in lines}
    RESULTS.write_text(json.dumps({"runs": runs, "scale": scale, "rows": table}, indent=2) + "\n")
    held = all(verdict["ok"] for line in lines for verdict in verdicts(line).values())
    return 0 if held or not chosen.check else 1


if __name__ == "__main__":
    sys.exit(main())
