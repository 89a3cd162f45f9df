"""Starts and stops asyncio tasks; no other module calls `create_task`."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

_running: set[asyncio.Task[Any]] = set()
counters = {"tasks": 0}
"""Number of tasks created since the process started, for tests that forbid one per message."""


def spawn(coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    """Run a coroutine as a task and return the task. Its exception is logged."""
    counters["tasks"] += 1
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finished)
    return task


def _finished(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed: %s", task.get_name(), error, exc_info=error)


async def outcome(work: Coroutine[Any, Any, None]) -> Exception | None:
    """Await `work`; return the exception it raised, or None.

    Use it for a task whose result is awaited: `spawn` would log the exception as well.
    """
    try:
        await work
    except Exception as error:
        return error
    return None


async def stop(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until they have ended. None and ended tasks are ignored."""
    live = [task for task in tasks if task is not None and not task.done()]
    for task in live:
        task.cancel()
    await asyncio.gather(*live, return_exceptions=True)
