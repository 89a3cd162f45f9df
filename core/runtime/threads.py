"""Runs imports and other blocking work of a start in threads beside the event loop.

The threads are daemons: a process that ends does not wait for them. If work must not stay
incomplete, its caller has to undo it.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import NoReturn, TypeVar

T = TypeVar("T")

_SWITCH_S = sys.getswitchinterval()
# An import computes without pause; a short switch interval lets other threads run.
_SHORT_SWITCH_S = 0.0005
_importing = 0


async def in_thread(work: Callable[[], T], *, name: str) -> T:
    """Call `work` in a new thread named `name`; return its result, or raise its exception.

    Cancellation ends the wait immediately; the thread continues.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:  # any exception must reach the caller
            call_if_open(_fail, error)
        else:
            call_if_open(_succeed, found)

    def call_if_open(how: Callable[..., None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no caller
            loop.call_soon_threadsafe(how, future, what)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future


async def imported(*names: str) -> ModuleType:
    """Import modules in a thread, without blocking the event loop; return the last one."""
    global _importing

    def work() -> ModuleType:
        return [import_module(name) for name in names][-1]

    _importing += 1
    sys.setswitchinterval(_SHORT_SWITCH_S)
    try:
        return await in_thread(work, name=f"import of {names[-1]}")
    finally:
        _importing -= 1
        if not _importing:
            sys.setswitchinterval(_SWITCH_S)


def leave(code: int) -> NoReturn:
    """End the process with an exit code, without waiting for running threads.

    A regular exit would finalize the interpreter while a thread is still importing.
    """
    if threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _succeed(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
