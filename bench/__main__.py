"""The comparison of jetgate with nats-server: `python -m bench`.

`--help` shows the options. A run of all rows writes `results/latest.json`; `--table` writes those
results into docs/performance.md. A row is one load with the servers that run it.
"""

import argparse
import json
import sys
import time
from statistics import median

from bench import table
from bench.empty import EmptyRoute
from bench.load import Load, Measure
from bench.peers import NAMES, Peer, started
from bench.report import Line, machine, print_header, print_line, verdicts
from bench.row import Row
from bench.rows import ROWS
from bench.wire import Connection, LoadError
from tests.support.crowd import affordable

SETTLE = 0.5  # seconds without load between two rows


def delete_streams(peer: Peer) -> None:
    """Delete all streams of the default account of a server."""
    if isinstance(peer, EmptyRoute):
        return
    connection = Connection(peer.address)
    for name in connection.api("STREAM.NAMES")["streams"] or []:
        connection.api(f"STREAM.DELETE.{name}")
    connection.close()


def measure(row: Row, peers: dict[str, Peer], runs: int, scale: float) -> dict[str, Measure]:
    """Run one row on its servers in rotation; return the medians of each server that did not fail.

    Args:
        row: The load and the names of its servers.
        peers: The running servers by name.
        runs: Number of runs.
        scale: Factor for the number of messages of the load.
    """
    loads: dict[str, Load] = {}
    failed: dict[str, str] = {}
    measures: dict[str, list[Measure]] = {name: [] for name in row.peers if name in peers}
    for run in range(min(runs, row.runs)):
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
            delete_streams(peers[name])
    time.sleep(SETTLE)
    return {
        name: {key: median(measure[key] for measure in taken) for key in taken[0]}
        for name, taken in measures.items()
        if taken and name not in failed
    }


def options() -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs per row; medians are shown")
    parser.add_argument("--quick", action="store_true", help="one run, a quarter of the messages")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this")
    parser.add_argument("--peers", default=",".join(NAMES), help="of nats, always, jetgate, empty")
    parser.add_argument("--check", action="store_true", help="fail when a floor is missed")
    parser.add_argument("--save", action="store_true", help="keep the chosen rows with the others")
    parser.add_argument(
        "--table", action="store_true", help="write the kept results into docs/performance.md"
    )
    return parser.parse_args()


def save(lines: list[Line], runs: int, *, all_rows: bool) -> None:
    """Write results to `results/latest.json`; replace the whole file only if all rows were run."""
    rows = {
        line.row.name: {
            "unit": line.row.unit,
            "table": line.row.table,
            "runs": min(runs, line.row.runs),
            "peers": line.medians,
            "floors": verdicts(line),
        }
        for line in lines
    }
    if not all_rows:
        kept = json.loads(table.RESULTS.read_text())
        rows, runs = kept["rows"] | rows, kept["runs"]
    ordered = {row.name: rows[row.name] for row in ROWS if row.name in rows}
    table.RESULTS.parent.mkdir(exist_ok=True)
    results = {"machine": machine(), "runs": runs, "rows": ordered}
    table.RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def main() -> int:
    """Measure the chosen rows and print the results.

    Returns the exit code: 1 if `--check` is given and a result misses its floor, else 0.
    """
    chosen = options()
    if chosen.table:
        table.update()
        return 0
    runs, scale = (1, 0.25) if chosen.quick else (chosen.runs, 1.0)
    rows = [r for r in ROWS if not chosen.only or any(part in r.name for part in chosen.only)]
    lines: list[Line] = []
    affordable(0)  # raise the limit of descriptors, for rows with many connections
    with started(tuple(chosen.peers.split(","))) as peers:
        print_header(runs, scale)
        for row in rows:
            lines.append(Line(row, measure(row, peers, runs, scale)))
            print_line(lines[-1])
    is_whole = len(rows) == len(ROWS) and len(peers) == len(NAMES) and not chosen.quick
    if is_whole or chosen.save:
        save(lines, runs, all_rows=is_whole)
    held = all(verdict["ok"] for line in lines for verdict in verdicts(line).values())
    return 0 if held or not chosen.check else 1


if __name__ == "__main__":
    sys.exit(main())
