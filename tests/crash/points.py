"""Kill and stop a node around every await of an operation: `python -m tests.crash.points`.

Each operation is begun again and again; the node ends at its first point, its second, and so on
until the operation comes to its end (`tests.crash.pointed` says what a point is). Each time another
node leads then, and everything that was promised is there, once, and nothing by half. A node that
was stopped goes on afterwards: what it answers then must be what the log has.
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
    "hand-over": operations.HandOver,
    "move-from": operations.MoveFrom,
    "move-to": operations.MoveTo,
}
_SILENT = (Closed, Silence, OSError, TimeoutExpired)
"""Raised where a node does not answer, or does not end."""
_T = TypeVar("_T")
_ATTEMPTS = 3
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Case:
    """One end of a node.

    Attributes:
        operation: its name in `OPERATIONS`.
        how: a name in `SIGNALS`.
        point: counted from 1 on.
    """

    operation: str
    how: str
    point: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case.

    Attributes:
        where: the point; empty: the operation has fewer.
        wrong: what contradicts a promise.
    """

    where: str
    wrong: list[str]


@dataclass(slots=True)
class Tally:
    """What came of all points of an operation, and of its end without one.

    Attributes:
        points: at how many the node ended.
        wrong: after how many of these, or without one, something was wrong.
    """

    points: int = 0
    wrong: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one more."""
        self.points += bool(verdict.where)
        self.wrong += bool(verdict.wrong)


def judge(world: World, case: Case) -> Verdict:
    """Have a node end at a point, and say what is wrong then."""
    leader, other = again(world.settle)
    operation = OPERATIONS[case.operation](world, leader, other)
    try:
        again(operation.prepare)
        victim = operation.victim
        world.arm(victim, Armed(operation.counted, case.point, SIGNALS[case.how]))
        operation.begin()
        where = world.end_at_point(victim)
        if not where:
            _end(operation)
            return Verdict("", _look(world, operation))
        heir = world.replace(victim)
        wrong = again(lambda: [*world.look(heir), *operation.judge(heir)])
        if case.how == "stop":
            world.go_on(victim)
            _end(operation)
        return Verdict(where, wrong + _look(world, operation))
    finally:
        operation.close()


def _end(operation: Operation) -> None:
    """Wait for the end of a node that was told to end."""
    if operation.ends_node:
        process = operation.victim.process
        assert process is not None
        assert process.wait(60) == 0, operation.victim.log()
        operation.victim.process = None


def _look(world: World, operation: Operation) -> list[str]:
    """What is wrong once both nodes serve again."""
    nodes: tuple[JetgateServer, ...] = again(world.settle)
    operation.collect()

    def look() -> list[str]:
        for node in nodes:
            for stream in STREAMS:
                world.publish(node, stream)
        wrong = []
        for node in nodes:
            wrong += [*world.look(node), *operation.judge(node)]
        return wrong

    wrong = again(look)
    again(world.clear)
    return wrong


def again(work: Callable[[], _T]) -> _T:
    """Do something that may be done twice; anew where a node closes what it is asked over.

    On a busy machine it may have stood still meanwhile, and then sends its clients away.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(Closed):
            return work()
    return work()


def enumerate_points(
    world: World, name: str, how: str, told: Callable[[Case, Verdict, float], None]
) -> None:
    """Judge every point of an operation."""
    point = 0
    while True:
        point += 1
        began = time.monotonic()
        case = Case(name, how, point)
        try:
            verdict = judge(world, case)
        except (*_SILENT, AssertionError) as error:  # what follows would meet what this one left
            verdict = Verdict("", [f"{type(error).__name__}: {error}", *world.logs()])
        told(case, verdict, time.monotonic() - began)
        if not verdict.where:
            return


def main() -> int:
    """Judge what is asked for, and print a line for each point."""
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
