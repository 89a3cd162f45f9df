"""Keeps standard input, output and error open, and writes to them without ending a server."""

import contextlib
import os
import signal
import sys
from typing import Literal, TextIO


def keep_standard_streams() -> None:
    """Reopen standard input, output and error on /dev/null if they are closed.

    Otherwise the next file or socket would become standard output, and libraries end a process that
    closes one of the three.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")


def print_line(text: str, stream: TextIO) -> None:
    """Print a line of a command, such as its result.

    If the disk is full the line is discarded. A closed pipe ends the process by SIGPIPE, as shells
    expect.
    """
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _forget(stream)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError:
        _forget(stream)


def write_text(text: str, stream: TextIO) -> None:
    """Print a text of a server.

    If it cannot be written (full disk, closed pipe), it is discarded.
    """
    try:
        print(text, end="", file=stream, flush=True)
    except OSError:
        _forget(stream)


def _forget(stream: TextIO) -> None:
    """Discard unwritten output: Python would try to write it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")
