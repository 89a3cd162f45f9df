"""A server with the NATS port alone, ours or the reference, and what it says of itself."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.best import timed
from tests.support.dropin import DropIn, config
from tests.support.wire import HELLO, Closed, Wire

MIB = 1 << 20
WITH_REFERENCE = pytest.mark.parametrize(
    "name", ["jetgate-nats-server", pytest.param("nats-server", marks=pytest.mark.thorough)]
)
"""A crowd takes the reference server as long as ours: not every run asks it the same again."""


@contextlib.contextmanager
def serving(name: str, place: Path, configuration: str = "") -> Iterator[DropIn]:
    """The command `name` with these lines of configuration."""
    path = config(place, 'http: "127.0.0.1:-1"', configuration)
    with DropIn(name, "-c", path) as server:
        yield server


def left(server: DropIn) -> tuple[int, int]:
    """How many connections and subscriptions the server knows of."""
    page = server.page("/varz")
    return page["connections"], page["subscriptions"]


def waited(server: DropIn, hello: bytes = HELLO) -> float:
    """The seconds that a new client takes to connect and to be answered; infinite if it is cut."""
    with timed(server.process.pid) as taken, Wire(server.address, timeout=60) as wire:
        try:
            wire.hello(hello)
        except (Closed, AssertionError):
            return math.inf
    return taken[0]
