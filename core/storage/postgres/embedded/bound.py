"""Binds the life of processes to this process: the kernel kills them the moment this process ends.

The parent-death signal (prctl) reaches only the postmaster, the main process of PostgreSQL. Its
children notice a little later that the postmaster has ended. A script such as `kill -9; wait; rm
-r` already removes the directory by then, while they create files in it.

Each process is therefore made the owner of a socket pair with asynchronous notification, with
SIGKILL as the notifying signal (fcntl(2): F_SETOWN, F_SETSIG). However this process ends, the
kernel closes its files, and with them the pair, before a parent's wait returns. The kernel
remembers the owner as a process, not by number: a later process with the same number is safe.
Without F_SETSIG (macOS) nothing is bound.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_F_SETSIG = 10  # missing in Python's fcntl


def bind(pid: int) -> Callable[[], None]:
    """Make the kernel kill the process `pid` when this process ends.

    Return a function that undoes it. The process must belong to the same user, or this process must
    be root. If the process has already ended, the call has no effect.
    """
    if sys.platform != "linux":
        return _nothing
    try:
        ends = socket.socketpair()
    except OSError:  # no descriptor left; the launcher's guard kills it, a little later
        return _nothing
    # Closing one end notifies the owner of the other, in either order.
    for end in ends:
        _notify(end, pid)
    return partial(_release, ends)


def same_program_children(pid: int) -> set[int]:
    """Return the child processes of `pid` that run the same executable as it.

    The launcher's guard, which runs Python, is thereby left out. Empty if the kernel does not list
    children.
    """
    found = set()
    try:
        program = os.stat(f"/proc/{pid}/exe")
        with open(f"/proc/{pid}/task/{pid}/children") as listing:
            children = [int(child) for child in listing.read().split()]
    except OSError:
        return set()
    for child in children:
        with suppress(OSError):  # it has just ended
            if os.path.samestat(os.stat(f"/proc/{child}/exe"), program):
                found.add(child)
    return found


def _notify(end: socket.socket, pid: int) -> None:
    try:
        fcntl.fcntl(end, fcntl.F_SETOWN, pid)
    except ProcessLookupError:
        return
    fcntl.fcntl(end, _F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(end, fcntl.F_GETFL)
    fcntl.fcntl(end, fcntl.F_SETFL, flags | os.O_ASYNC)


def _release(ends: tuple[socket.socket, socket.socket]) -> None:
    for end in ends:  # both, before the first is closed
        fcntl.fcntl(end, fcntl.F_SETOWN, 0)
    for end in ends:
        end.close()


def _nothing() -> None:
    """Do nothing: no process was bound."""
