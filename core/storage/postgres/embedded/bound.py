"""Binds processes to the life of this one: the kernel kills them in the moment in which it ends.

A signal that a parent's death sends (prctl) reaches the postmaster alone, and its children notice a
little later that it has gone, while `kill -9; wait; rm -r` already removes the directory in which
they make files. So each process is made the owner of a socket pair with asynchronous notification,
and SIGKILL is chosen to notify it (fcntl(2): F_SETOWN, F_SETSIG). When this process ends, however
it ends, the kernel closes its files, and with them the pair, before anybody can have waited for it.

An owner is remembered as a process, not as its number: another process with the same number later
is not meant. Where there is no F_SETSIG (macOS), nothing is bound.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_F_SETSIG = 10  # not among the names of Python's fcntl


def bind(pid: int) -> Callable[[], None]:
    """Have the kernel kill a process when this one ends; return what undoes that.

    The process must be of the same user, or this one be root. Nothing is bound if it has gone.
    """
    if sys.platform != "linux":
        return _nothing
    try:
        ends = socket.socketpair()
    except OSError:  # no descriptor left; the launcher's guard kills it, a little later
        return _nothing
    # Each notifies the other end as it is closed, in whatever order that happens.
    for end in ends:
        _notify(end, pid)
    return partial(_release, ends)


def same_program_children(pid: int) -> set[int]:
    """Return the processes that a process has forked and that still run its program.

    Those that run another one (the launcher's guard) are left out; where the kernel does not tell,
    there are none.
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
    """Undo nothing."""
