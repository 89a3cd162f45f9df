"""Plays a history on both servers at the same time and tells after which step they differ."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from operator import methodcaller
from typing import Any

from tests.oracle.common import Step
from tests.oracle.playing import Player
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

# Seconds for what the reference server does behind its answers, as it removes what was settled.
SOON = 20.0
Address = tuple[str, int]
Difference = tuple[int, str]
"""The place of a step, and what the servers tell apart after it."""

_names = (f"H{number}" for number in itertools.count())


def difference(steps: list[Step], ours: Address, theirs: Address) -> Difference | None:
    """The first step after which the servers differ, and how; None when they never do."""
    name = next(_names)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        both = [stack.enter_context(Player(address, name)) for address in (ours, theirs)]
        one, other = both
        for place, step in enumerate(steps):
            mine, reference = pool.map(methodcaller("do", step), both)
            if mine == reference:
                try:
                    eventually(lambda: _same_look(one, other), within=SOON)
                    continue
                except AssertionError:
                    mine, reference = one.look(), other.look()
            return place, "\n".join(_apart(mine, reference))
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


def shortest(steps: list[Step], first: Difference, ours: Address, theirs: Address) -> list[Step]:
    """Leave out steps as long as the servers still differ in the same place of their answers."""
    steps, size = steps[: first[0] + 1], len(steps) // 2
    while size:
        place = 1
        while place < len(steps):
            fewer = steps[:place] + steps[place + size :]
            found = difference(fewer, ours, theirs)
            if found is None or _where(found) != _where(first):
                place += size
            else:
                steps = fewer[: found[0] + 1]
        size //= 2
    return steps


def _where(found: Difference) -> str:
    """The place in the answers of the first that differs."""
    return found[1].partition(": ")[0]


@contextmanager
def reference() -> Iterator[NatsServer]:
    """A server of its own that always has a stream: with the last one it removes their directory,
    while the next may already be made in it.
    """
    with NatsServer() as server, Wire(server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.KEPT", {"name": "KEPT"})
        yield server
