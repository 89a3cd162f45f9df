"""The rows of `python -m bench` on this tree, compared with those on an earlier commit.

python -m bench.against COMMIT [--only ROW] [--rounds 7] [--scale 1.0]

The commit is checked out beside this tree for the run. In each round both servers run each row, in
alternating order. The result of a row is the ratio of the two in each round, so that a slow minute
of the machine affects both. Processor time is that of the server with its PostgreSQL, as a ratio of
this tree to the commit. It depends less on other load of the machine, and is meaningless for rows
that restart their server.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.__main__ import delete_streams
from bench.load import Measure
from bench.processor import used
from bench.report import HIGHER, machine
from bench.row import Row
from bench.rows import ROWS
from bench.wire import LoadError
from tests.support.jetgate import ROOT, JetgateServer

SMALL = 0.03
"""Deviation of the ratio from 1 beyond which a row is slower: in the median and most rounds."""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit beside this tree and yield its directory; remove the directory at the
    end.
    """
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "tree"
        subprocess.run([*git, "add", "--detach", "--quiet", str(place), commit], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def ratios(row: Row, before: JetgateServer, now: JetgateServer, rounds: int, scale: float) -> None:
    """Print the ratios of this tree to the commit in one row; above 1, this tree is faster."""
    if row.unit == "grown":
        rounds = 1  # in a second round a server already has the memory
    servers = {"before": before, "now": now}
    loads = {name: row.load("jetgate") for name in servers}
    for name, load in loads.items():
        load.prepare(servers[name], scale)
    found: dict[str, list[Measure]] = {name: [] for name in servers}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(rounds):
        for name in sorted(servers, reverse=turn % 2 == 1):
            began = used(servers[name].pid)
            try:
                found[name].append(loads[name].run(servers[name], scale, turn))
            except LoadError as error:
                print(f"{row.name}: {name} failed: {error}\n{servers[name].log(1000)}", flush=True)
                return
            costs[name].append(used(servers[name].pid) - began)
    for server in servers.values():
        delete_streams(server)
    before_is, now_is = ([each[row.unit] for each in found[name]] for name in servers)
    pairs = list(zip(before_is, now_is, strict=True))
    each = sorted(b / a if row.unit in HIGHER else a / b for a, b in pairs)
    middle = median(each)
    slower = sum(ratio < 1 - SMALL for ratio in each)
    cost = median(after / max(first, 0.01) for first, after in zip(*costs.values(), strict=True))
    verdict = "SLOWER" if middle < 1 - SMALL and slower * 4 >= rounds * 3 else ""
    print(
        f"{row.name:44} {median(before_is):10,.0f} {median(now_is):10,.0f}  {middle:.3f}"
        f"  ({each[0]:.2f}-{each[-1]:.2f}, {slower} of {rounds} slower)"
        f"  {cost:.3f}  {verdict}",
        flush=True,
    )


def main() -> None:
    """Compare the rows that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages")
    chosen = parser.parse_args()
    rows = [r for r in ROWS if not chosen.only or any(part in r.name for part in chosen.only)]
    print(f"{machine()}; medians before, now, of now to before (least-most), of processor time")
    with checked_out(chosen.commit) as place:
        paths = f"{place}:{place}/spark:{place}/sdks/python"
        old = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}  # else this tree comes first
        with JetgateServer(env=old) as before, JetgateServer() as now:
            for row in rows:
                ratios(row, before, now, chosen.rounds, chosen.scale)


if __name__ == "__main__":
    main()
