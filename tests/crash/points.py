"""A node, killed or stopped at every await of an operation: `python -m tests.crash.points`.

Each operation runs repeatedly; the node ends at its first point, its second, and so on, until the
operation has no further point (`tests.crash.pointed` defines a point). Each time, another node then
takes over, and every acknowledged change exists, once and completely. A stopped node resumes
afterwards: its answers must agree with the log.
"""

import argparse
import contextlib
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import TimeoutExpired
from typing import TypeVar

from tests.crash import operations, passed
from tests.crash.operations import Operation
from tests.crash.point_world import STREAMS, World
from tests.crash.pointed import Armed
from tests.support.jetgate import JetgateServer
from tests.support.pg import PostgresServer
from tests.support.wire import Closed, Silence

OPERATIONS: dict[str, type[Operation]] = {
    "publish": operations.Publish,
    "publish-many": operations.PublishMany,
    "publish-afar": passed.PublishFromAfar,
    "pass-publish": passed.PassPublish,
    "pass-pull": passed.PassPull,
    "ack": operations.Ack,
    "ack-afar": passed.AckFromAfar,
    "pass-ack": passed.PassAck,
    "create-stream": operations.CreateStream,
    "pass-create-stream": passed.PassCreateStream,
    "update-stream": operations.UpdateStream,
    "delete-stream": operations.DeleteStream,
    "pass-delete-stream": passed.PassDeleteStream,
    "pass-delete-message": passed.PassDeleteMessage,
    "create-consumer": operations.CreateConsumer,
    "pass-create-consumer": passed.PassCreateConsumer,
    "delete-consumer": operations.DeleteConsumer,
    "pass-delete-consumer": passed.PassDeleteConsumer,
    "take-over": operations.TakeOver,
    "hand-over": operations.Transfer,
    "move-from": operations.MoveFrom,
    "move-to": operations.MoveTo,
}
_SILENT = (Closed, Silence, OSError, TimeoutExpired)
"""Exceptions for a node that does not answer, or does not end."""
_T = TypeVar("_T")
_ATTEMPTS = 3
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Case:
    """One operation, ended at one point.

    Attributes:
        operation: Its name in `OPERATIONS`.
        how: A name in `SIGNALS`.
        point: Number of the point, from 1 on.
    """

    operation: str
    how: str
    point: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a case.

    Attributes:
        where: The point; empty: the operation has fewer points.
        wrong: Contradictions to answers.
    """

    where: str
    wrong: list[str]


@dataclass(slots=True)
class Tally:
    """The results of all points of an operation, and of its run without one.

    Attributes:
        points: Number of points at which the node ended.
        wrong: Number of results with contradictions, including the run without a point.
    """

    points: int = 0
    wrong: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one more result."""
        self.points += bool(verdict.where)
        self.wrong += bool(verdict.wrong)


def judge(world: World, case: Case) -> Verdict:
    """Make a node end at a point, and return the contradictions found then."""
    leader, other = again(world.start_nodes)
    operation = OPERATIONS[case.operation](world, leader, other)
    try:
        again(operation.prepare)
        victim = operation.victim
        world.arm(victim, Armed(operation.counted, case.point, SIGNALS[case.how]))
        operation.begin()
        where = world.end_at_point(victim)
        if not where:
            _end(operation)
            return Verdict("", _observe(world, operation))
        heir = world.replace(victim)
        wrong = again(lambda: [*world.contradictions(heir), *operation.judge(heir)])
        if case.how == "stop":
            world.go_on(victim)
            _end(operation)
        return Verdict(where, wrong + _observe(world, operation))
    finally:
        operation.close()


def _end(operation: Operation) -> None:
    """Wait for the end of a node that ends by itself."""
    if operation.ends_node:
        process = operation.victim.process
        assert process is not None
        assert process.wait(60) == 0, operation.victim.log()
        operation.victim.process = None


def _observe(world: World, operation: Operation) -> list[str]:
    """Return the contradictions after both nodes serve again."""
    nodes: tuple[JetgateServer, ...] = again(world.start_nodes)
    operation.collect()

    def look() -> list[str]:
        for node in nodes:
            for stream in STREAMS:
                world.publish(node, stream)
        wrong = []
        for node in nodes:
            wrong += [*world.contradictions(node), *operation.judge(node)]
        return wrong

    wrong = again(look)
    again(world.clear)
    return wrong


def again(work: Callable[[], _T]) -> _T:
    """Run work that may be repeated; repeat it when a node closes the connection.

    On a busy machine a node may have been paused, after which it disconnects its clients.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(Closed):
            return work()
    return work()


def enumerate_points(
    world: World, name: str, how: str, told: Callable[[Case, Verdict, float], None]
) -> None:
    """Check every point of an operation; call `told` with case, result and seconds of each."""
    point = 0
    while True:
        point += 1
        began = time.monotonic()
        case = Case(name, how, point)
        try:
            verdict = judge(world, case)
        except (*_SILENT, AssertionError) as error:  # its state could disturb the next case
            verdict = Verdict("", [f"{type(error).__name__}: {error}", *world.logs()])
        told(case, verdict, time.monotonic() - began)
        if not verdict.where:
            return


def main() -> int:
    """Check the chosen operations, and print a line for each point; return 1 if any is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.points", description=__doc__)
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--how", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    options = parser.parse_args()
    found: dict[tuple[str, str], Tally] = defaultdict(Tally)

    def told(case: Case, verdict: Verdict, took: float) -> None:
        found[case.operation, case.how].add(verdict)
        what = f"{case.operation:20} {case.how:5} {case.point:3}  {took:5.1f} s  "
        print(what + (verdict.where or "no such point"), flush=True)
        for text in verdict.wrong:
            print(f"    WRONG: {text}", flush=True)

    with PostgresServer(settings={"fsync": "on"}) as postgres:
        for name in options.operations:
            for how in options.how:
                with World(postgres.fresh_database()) as world:
                    enumerate_points(world, name, how, told)
    for (name, how), tally in found.items():
        print(f"{name:20} {how:5} {tally.points:3} points, {tally.wrong} wrong")
    failures = sum(tally.wrong for tally in found.values())
    print(f"{failures} points are wrong" if failures else "nothing is wrong")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
