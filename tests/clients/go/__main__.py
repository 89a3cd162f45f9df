"""The official Go client's own tests against `jetgate-nats-server`: `python -m tests.clients.go`

Needs Go and, the first time, a network. A test that fails is run again, then with nats-server in
the same place: what nats-server does not pass there says nothing about jetgate and is left out.
The exit code is 1 when a test fails that nats-server passes.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.clients.go.build import SUITES, VERSION, Suite, build
from tests.clients.go.known import KNOWN
from tests.clients.go.run import COMMANDS, Outcome, run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.go", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, action="append", help="only these packages")
    parser.add_argument("--only", default="", metavar="REGEX", help="only tests with such names")
    parser.add_argument("--server", choices=sorted(COMMANDS), default="jetgate")
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="run N tests at a time, "
        "each in a network of its own (Linux, as root; the ports are fixed)",
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "official-go",
        help="where the client is built, and the output of failures kept",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="where servers keep what they store; in memory (/dev/shm) they start sooner",
    )
    return parser.parse_args()


class Judge:
    """Runs one test as often as its verdict needs."""

    def __init__(self, server: str, *, apart: bool, data: Path | None) -> None:
        self._server = server
        self._run = partial(run, apart=apart, data=data)

    def __call__(self, suite: Suite, test: str) -> Outcome:
        if self._server == "nats-server":
            return self._run(suite, test, self._server)
        if test in KNOWN:
            return Outcome(suite.name, test, "left out", KNOWN[test])
        first = self._run(suite, test, self._server)
        if first.verdict != "failed":
            return first
        again = self._run(suite, test, self._server)
        if again.verdict != "failed":
            return replace(again, why=f"the second time; first: {first.why}")
        control = self._run(suite, test, "nats-server")
        if control.verdict == "failed":
            return replace(control, verdict="left out", why=f"nats-server too: {control.why}")
        return again


def main() -> int:
    asked = _arguments()
    asked.work.mkdir(parents=True, exist_ok=True)
    failures = asked.work / "failures"
    failures.mkdir(exist_ok=True)
    suites = build(asked.work.resolve(), tuple(asked.suite or SUITES))
    chosen = [(s, t) for s in suites for t in s.tests() if re.search(asked.only, t)]
    print(f"nats.go {VERSION}, {len(chosen)} tests, server: {asked.server}", flush=True)

    judge = Judge(asked.server, apart=asked.jobs > 0, data=asked.data)

    def one(which: tuple[Suite, str]) -> Outcome:
        found = judge(*which)
        said = f"{found.verdict:8} {found.seconds:5.1f} s  {found.suite} {found.test}"
        print(f"{said}: {found.why}" if found.why else said, flush=True)
        if found.verdict == "failed":
            (failures / f"{found.test}.txt").write_text(found.text)
        return found

    with ThreadPoolExecutor(max(1, asked.jobs)) as workers:
        outcomes = list(workers.map(one, chosen))
    _summary(outcomes, failures)
    return int(any(o.verdict == "failed" for o in outcomes))


def _summary(outcomes: list[Outcome], failures: Path) -> None:
    print()
    for suite in SUITES:
        counts = Counter(o.verdict for o in outcomes if o.suite == suite)
        if counts:
            print(f"{suite:16} " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    reasons = Counter(o.why for o in outcomes if o.verdict == "left out")
    for why, n in reasons.most_common():
        print(f"left out: {n:3} {why}")
    for o in outcomes:
        if o.verdict == "failed":
            print(f"failed: {o.suite} {o.test}: {o.why} ({failures / o.test}.txt)")


if __name__ == "__main__":
    sys.exit(main())
