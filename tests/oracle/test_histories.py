"""Random histories of a stream and its consumers: both servers must answer every step alike.

`python -m tests.oracle.test_histories SEED COUNT` plays more of them and shortens what differs.
"""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.oracle.histories import Step, history
from tests.oracle.playing import Player
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

LENGTH = 30
# Seconds for what the reference server does behind its answers, as it removes what was settled.
SOON = 20.0
Address = tuple[str, int]

_names = (f"H{number}" for number in itertools.count())


def difference(steps: list[Step], ours: Address, theirs: Address) -> tuple[int, str] | None:
    """The first step after which the servers differ, and how; None when they never do."""
    name = next(_names)
    one, other = Player(ours, name), Player(theirs, name)
    try:
        for place, step in enumerate(steps):
            mine, reference = one.do(step), other.do(step)
            if mine == reference:
                try:
                    eventually(lambda: _same_look(one, other), within=SOON)
                    continue
                except AssertionError:
                    mine, reference = one.look(), other.look()
            return place, "\n".join(_apart(mine, reference))
    finally:
        one.close()
        other.close()
    return None


def _same_look(one: Player, other: Player) -> bool:
    return bool(one.look() == other.look())


def _apart(mine: Any, reference: Any, path: str = "") -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(reference, dict):
        for name in sorted({*mine, *reference}):
            yield from _apart(mine.get(name), reference.get(name), f"{path}.{name}")
    elif isinstance(mine, list) and isinstance(reference, list) and len(mine) == len(reference):
        for place, pair in enumerate(zip(mine, reference, strict=True)):
            yield from _apart(*pair, f"{path}[{place}]")
    elif mine != reference:
        yield f"{path}: jetgate {mine!r}, nats-server {reference!r}"


def shortest(steps: list[Step], ours: Address, theirs: Address) -> list[Step]:
    """Leave out steps as long as the servers still differ."""
    size = len(steps) // 2
    while size:
        place = 1
        while place < len(steps):
            fewer = steps[:place] + steps[place + size :]
            found = difference(fewer, ours, theirs)
            if found is None:
                place += size
            else:
                steps = fewer[: found[0] + 1]
        size //= 2
    return steps


@contextmanager
def reference() -> Iterator[NatsServer]:
    """A server of its own that always has a stream: with the last one it removes their directory,
    while the next may already be made in it.
    """
    with NatsServer() as server, Wire(server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.KEPT", {"name": "KEPT"})
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[NatsServer]:
    with reference() as server:
        yield server


@pytest.mark.parametrize("seed", range(12))
def test_both_servers_tell_the_same_of_a_history(
    jetgate_server: JetgateServer, theirs: NatsServer, seed: int
) -> None:
    steps = history(seed, LENGTH)
    found = difference(steps, jetgate_server.address, theirs.address)
    assert found is None, f"after {steps[: found[0] + 1]}:\n{found[1]}"


def main(first: int, count: int) -> None:
    """Play histories and print those that differ, shortened."""
    with JetgateServer() as ours, reference() as theirs:
        for seed in range(first, first + count):
            steps = history(seed, LENGTH)
            if difference(steps, ours.address, theirs.address) is None:
                continue
            steps = shortest(steps, ours.address, theirs.address)
            found = difference(steps, ours.address, theirs.address)
            print(f"seed {seed}:", *steps, found and found[1], sep="\n  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
