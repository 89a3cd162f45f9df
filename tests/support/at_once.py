"""Asking several servers at the same time, where an answer or silence takes its time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
R = TypeVar("R")


def at_once(ask: Callable[[S], R], servers: Iterable[S]) -> list[R]:
    """Ask each server in a thread of its own; the answers in the servers' order."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(ask, servers))
