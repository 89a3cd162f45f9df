"""Kill and stop a node around every await of an operation: `python -m tests.crash.points`.

Each operation is begun again and again; the node ends at its first point, its second, and so on
until the operation comes to its end (`tests.crash.pointed` says what a point is). Each time another
node leads then, and everything that was promised is there, once, and nothing by half. A node that
was stopped goes on afterwards: what it answers then must be what the log has.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.crash.operations import OPERATIONS, Operation
from tests.crash.point_world import World
from tests.crash.pointed import Armed
from tests.support.jetgate import JetgateServer
from tests.support.pg import PostgresServer

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


def judge(world: World, case: Case) -> Verdict:
    """Have a node end at a point, and say what is wrong then."""
    leader, other = world.settle()
    operation = OPERATIONS[case.operation](world, leader, other)
    try:
        operation.prepare()
        victim = operation.victim
        world.arm(victim, Armed(operation.counted, case.point, SIGNALS[case.how]))
        operation.begin()
        where = world.end_at_point(victim)
        if not where:
            _end(operation)
            return Verdict("", _look(world, operation))
        heir = world.replace(victim)
        wrong = [*world.look(heir), *operation.judge(heir)]
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
    nodes: tuple[JetgateServer, ...] = world.settle()
    operation.collect()
    for node in nodes:
        for stream in ("LOG", "OTHER"):
            world.publish(node, stream)
    wrong = []
    for node in nodes:
        wrong += [*world.look(node), *operation.judge(node)]
    return wrong


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
        except AssertionError as error:  # what follows would meet what this one left
            verdict = Verdict("", [f"{type(error).__name__}: {error}"])
        told(case, verdict, time.monotonic() - began)
        if not verdict.where:
            return


def main() -> int:
    """Judge what is asked for, and print a line for each point."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.points", description=__doc__)
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--how", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    options = parser.parse_args()
    failures = 0

    def told(case: Case, verdict: Verdict, took: float) -> None:
        nonlocal failures
        what = f"{case.operation:16} {case.how:5} {case.point:3}  {took:5.1f} s  "
        print(what + (verdict.where or "no such point"), flush=True)
        for text in verdict.wrong:
            print(f"    WRONG: {text}", flush=True)
        failures += bool(verdict.wrong)

    with PostgresServer(settings={"fsync": "on"}) as postgres:
        for name in options.operations:
            for how in options.how:
                with World(postgres.fresh_database()) as world:
                    enumerate_points(world, name, how, told)
    print(f"{failures} points are wrong" if failures else "nothing is wrong")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
