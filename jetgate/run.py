"""Execution of a command: configures the log, runs the event loop, prints errors as one line.

An error for the operator is `jetgate: ...` on stderr and exit code 1; wrong usage is exit code 2.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn

import typer

from core.errors import ConfigError, OperatorError, Unavailable
from core.runtime.descriptors import use_all_descriptors
from core.runtime.interrupts import raise_again
from core.runtime.loop import new_loop
from core.runtime.standard_streams import print_line
from jetgate.logs import Format, Level, configure

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), 127)}

LogLevel = Annotated[Level, typer.Option(help="Least severe level to log.")]
LogFormat = Annotated[Format, typer.Option(help="Format of log lines: text or JSON.")]


def run(
    work: Callable[[], Coroutine[Any, Any, None]],
    level: Level = Level.INFO,
    form: Format = Format.TEXT,
) -> None:
    """Run the coroutine of a command to its end.

    An OperatorError, ConfigError or Unavailable exits with code 1, Ctrl-C with code 130.
    """
    configure(level, form)
    use_all_descriptors()
    raise_again()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(work())
    except (OperatorError, ConfigError, Unavailable) as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit(130)


def fail(error: Exception) -> NoReturn:
    """Print an error on stderr as one line, and exit with code 1.

    Control characters in the error are escaped.
    """
    print_line(f"jetgate: {str(error).translate(_ESCAPED)}", sys.stderr)
    sys.exit(1)
