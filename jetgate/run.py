"""How a command runs: its log on stderr, its event loop, and its faults as one line.

What only the operator can mend is `jetgate: ...` on stderr and exit code 1; a wrong use of the
command is exit code 2.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn

import typer

from core.errors import ConfigError, OperatorError, Unavailable
from core.runtime.descriptors import use_all_descriptors
from core.runtime.interrupts import raise_again
from core.runtime.loop import loop_factory
from core.runtime.standard_streams import say

# What libraries say while PostgreSQL is away, the lane and the leadership say better. That somebody
# sends other things than HTTP is told to him, not to the operator.
_QUIET = {
    "alembic": logging.WARNING,
    "asyncio": logging.CRITICAL,
    "asyncpg": logging.ERROR,
    "uvicorn": logging.ERROR,
}

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]


def run(verbose: bool, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a server or a change of the schema to its end."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    logging.raiseExceptions = False  # a log that cannot be written is no reason to print more
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    use_all_descriptors()
    raise_again()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work())
    except (OperatorError, ConfigError, Unavailable) as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit(130)


def fail(error: Exception) -> NoReturn:
    """Say what went wrong and end the process."""
    say(f"jetgate: {error}", sys.stderr)
    sys.exit(1)
