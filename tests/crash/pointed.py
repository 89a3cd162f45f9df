"""The command `jetgate`, which kills or stops itself at the n-th point of an operation.

`python -m tests.crash.pointed ...`. A point is before a coroutine of the operation waits (`before`:
the output of the process is written only at the end of a loop tick, so nothing has left it), or
after it resumes (`after`: the result has arrived and is not yet used). A message that a node
forwards has no coroutine; its points are before and after each read and each write. A file, which
may be written at any time, names the operation and the point (`Points`). The product itself has no
code for this.
"""

import functools
import os
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import msgspec

from tests.support.faulty_node import EARLY_VARIABLE, acknowledge_early

POINTS_VARIABLE = "JETGATE_TEST_POINTS"
"""Name of the variable with the directory of the files `armed`, `reached` and `passed`."""


class Armed(msgspec.Struct, frozen=True):
    """The point at which a process is to end.

    Attributes:
        operation: Name of the operation.
        point: Number of the point, from 1 on.
        signal: Number of the signal that the process sends to itself.
    """

    operation: str
    point: int
    signal: int


class Points:
    """A counter of the points of the armed operation; one operation at a time.

    The file `reached` contains the point at which the process ended. The file `passed` contains the
    number of points of the operation, when that is less than the armed point.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._armed: Armed | None = None
        self._count = 0

    def begin(self, *operations: str) -> None:
        """Start to count if one of these operations is armed."""
        if self._armed is not None:
            return
        try:
            armed = msgspec.json.decode((self._directory / "armed").read_bytes(), type=Armed)
        except FileNotFoundError:
            return
        if armed.operation in operations:
            self._armed, self._count = armed, 0

    @property
    def is_counting(self) -> bool:
        """True while the points of an operation are counted."""
        return self._armed is not None

    def reach(self, where: str) -> None:
        """Count a point, and send the armed signal to this process if it is the armed point."""
        armed = self._armed
        if armed is None:
            return
        self._count += 1
        if self._count == armed.point:
            self._armed = None
            (self._directory / "armed").unlink()
            _write(self._directory / "reached", where)
            os.kill(os.getpid(), armed.signal)

    def end(self, *operations: str) -> None:
        """Stop counting if one of these operations is being counted."""
        if self._armed is not None and self._armed.operation in operations:
            self._armed = None
            (self._directory / "armed").unlink()
            _write(self._directory / "passed", str(self._count))


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


class _Driven:
    """A coroutine wrapper that reports each wait and each resumption as a point."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], points: Points) -> None:
        self._coroutine = coroutine
        self._points = points

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, reach = self._coroutine, self._points.reach
        go_on: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            try:
                awaited = go_on(value)
            except StopIteration as end:
                return end.value
            place = _place(coroutine) if self._points.is_counting else ""
            reach(f"before {place}")
            try:
                value = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                go_on, value = coroutine.throw, error
            else:
                go_on = coroutine.send
            reach(f"after {place}")


def _place(coroutine: Any) -> str:
    """Return the innermost waiting functions of the product, and the function they await."""
    names, awaited = [], ""
    while hasattr(coroutine, "cr_code"):
        code = coroutine.cr_code
        awaited = code.co_qualname
        if f"{os.sep}core{os.sep}" in code.co_filename:
            names.append(f"{awaited}:{coroutine.cr_frame.f_lineno}")
            awaited = ""
        coroutine = coroutine.cr_await
    return " > ".join([*names[-3:], *([awaited] if awaited else [])])


def drive(of: Any, name: str, points: Points, begins: Any, ends: Any = ()) -> None:
    """Wrap a coroutine function so that it reports its points.

    Args:
        begins: Operations that begin with a call, or a function of its arguments that returns them.
        ends: Operations that end with a call.
    """
    function = getattr(of, name)

    @functools.wraps(function)
    async def driven(*arguments: Any, **named: Any) -> Any:
        points.begin(*(begins(*arguments) if callable(begins) else begins))
        result = await _Driven(function(*arguments, **named), points)
        points.end(*ends)
        return result

    setattr(of, name, driven)


def surround(of: Any, name: str, points: Points, begins: Any, ends: tuple[str, ...] = ()) -> None:
    """Wrap a function so that it reports a point before and after it; arguments as for `drive`."""
    function = getattr(of, name)

    @functools.wraps(function)
    def surrounded(*arguments: Any) -> Any:
        points.begin(*(begins(*arguments) if callable(begins) else begins))
        points.reach(f"before {function.__qualname__}")
        result = function(*arguments)
        points.reach(f"after {function.__qualname__}")
        points.end(*ends)
        return result

    setattr(of, name, surrounded)


def instrument(points: Points) -> None:
    """Make every operation report its points."""
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.group_committer import GroupCommitter
    from core.jetstream.registry import Registry
    from core.jetstream.state_writer import StateWriter
    from core.node.ownership.transfer import Transfers
    from core.route.link import RouteLink
    from core.storage.postgres.leases import PostgresLeases
    from core.transport.session import ClientSession

    drive(GroupCommitter, "_round", points, ("publish",), ("publish",))
    drive(StateWriter, "flush", points, lambda self: ("ack",) if self._waiting else (), ("ack",))
    for name in ("create_stream", "update_stream", "delete_stream"):
        drive(Registry, name, points, (name,), (name,))
    for name in ("create", "delete"):
        operation = f"{name}_consumer"
        drive(Consumers, name, points, (operation,), (operation,))
    drive(Transfers, "transfer", points, ("hand_over",), ("hand_over",))
    _instrument_take_over(points, PostgresLeases, Transfers)
    surround(
        ClientSession, "data_received", points, lambda _, data: ("pass",) if b"PUB " in data else ()
    )
    surround(RouteLink, "flush", points, ())
    surround(RouteLink, "data_received", points, ())
    surround(ClientSession, "flush", points, (), ("pass",))


def _instrument_take_over(points: Points, store: Any, transfers: Any) -> None:
    """Begin a takeover once its locks are acquired: the number of attempts before it varies."""
    acquire = store.acquire

    async def acquired(self: Any, groups: Any) -> Any:
        if found := await acquire(self, groups):
            points.begin("take_over")
        return found

    store.acquire = acquired
    drive(transfers, "acquire", points, (), ("take_over",))


if __name__ == "__main__":
    if os.environ.get(EARLY_VARIABLE) == "1":
        acknowledge_early()
    instrument(Points(Path(os.environ[POINTS_VARIABLE])))
    from jetgate.console import main

    main()
