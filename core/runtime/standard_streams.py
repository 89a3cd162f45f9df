"""Standard input, output and error: there whoever closed them, and not worth an end of a server."""

import contextlib
import os
import signal
import sys
from typing import Literal, TextIO


def keep_standard_streams() -> None:
    """Open what the caller closed of them, on /dev/null.

    Otherwise the next file or socket would become standard output, and libraries end a process that
    closes one of the three.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")


def say(text: str, stream: TextIO) -> None:
    """Print a line for whoever called the command.

    A full disk changes nothing. A reader who has gone ends the process by SIGPIPE, which is what
    shells expect.
    """
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _forget(stream)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError:
        _forget(stream)


def tell(text: str, stream: TextIO) -> None:
    """Print a text of a server, which goes on whether anybody can read it or not."""
    try:
        print(text, end="", file=stream, flush=True)
    except OSError:
        _forget(stream)


def _forget(stream: TextIO) -> None:
    """Let what could not be written go nowhere; it would be tried again at the end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")
