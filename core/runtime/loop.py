"""Creates the event loop of a process, with uvloop if it is installed."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop that logs the exceptions of its callbacks."""
    try:
        import uvloop
    except ImportError:  # Windows
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    loop.set_exception_handler(_failed)
    return loop


def _failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a failure, except of a future: drivers leave some futures that are never awaited."""
    error = context.get("exception")
    if error is not None and not ("future" in context or "task" in context):
        log.error("%s: %s", context["message"], error, exc_info=error)
