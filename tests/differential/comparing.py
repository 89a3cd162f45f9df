"""The comparison of both servers: it plays a history on both and finds the first different step."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from operator import methodcaller
from typing import Any

from tests.differential.common import Step
from tests.differential.playing import Player
from tests.support.eventually import eventually
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

# Seconds for changes that nats-server makes after its answer, such as removing acknowledged
# messages.
SOON = 20.0
Address = tuple[str, int]
Difference = tuple[int, str]
"""The index of a step, and a description of the difference after it."""

_names = (f"H{number}" for number in itertools.count())


def difference(steps: list[Step], ours: Address, theirs: Address) -> Difference | None:
    """Return the first step after which the servers differ, with the difference; None if none."""
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
                    mine, reference = one.observe(), other.observe()
            return place, "\n".join(_apart(mine, reference))
    return None


def _same_look(one: Player, other: Player) -> bool:
    return bool(one.observe() == other.observe())


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
    """Remove steps while the servers still differ at the same place in their answers."""
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
    """Return the place in the answers of the first difference."""
    return found[1].partition(": ")[0]


@contextmanager
def reference() -> Iterator[NatsServer]:
    """Run a nats-server that always has a stream.

    When the last stream is deleted, nats-server removes the directory of streams, in which the next
    may already be created.
    """
    with NatsServer() as server, Wire(server.address) as wire:
        wire.hello()
        wire.api("STREAM.CREATE.KEPT", {"name": "KEPT"})
        yield server
