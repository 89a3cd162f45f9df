"""The program that starts `postgres`: `launcher.py UID GID PARENT DATA postgres ...`.

It switches to the unprivileged user (UID -1: no switch), asks the kernel (prctl) to send SIGKILL
when the parent process dies, and executes `postgres`. The kernel sends that signal before a wait
for the parent returns, and PostgreSQL gets no time to remove files. The prctl comes after the
switch, which would reset it.

PostgreSQL's own children would run until they next wait for something. So a small process, the
guard, waits for the end of the parent or of PostgreSQL and kills the children.

The program imports nothing of jetgate, to be fast, and nothing after the switch: the other user may
be unable to read Python's library. Without such a prctl (macOS) an orphaned server is stopped at
the next start.
"""

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PAUSE_MS = 1


def main() -> None:
    """Drop privileges, ask the kernel for SIGKILL when the parent dies, and execute `postgres`."""
    uid, gid, parent = (int(argument) for argument in sys.argv[1:4])
    command = sys.argv[5:]
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(sys.argv[4])  # before the switch: the other user may not be able to enter its parents
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the prctl
            sys.exit(1)
        _start_guard(parent)
    os.umask(0o077)
    os.execv(command[0], command)


def _start_guard(parent: int) -> None:
    """Fork a process that kills all others in this directory once the parent or this process ends.

    The guard's working directory is the same, so a later start, which waits for such processes,
    waits for the guard too.
    """
    try:
        ends = select.poll()
        for process in (parent, os.getpid()):
            ends.register(os.pidfd_open(process), select.POLLIN)
        if os.fork():
            return
    except OSError:  # no pidfd in this kernel, or fork failed
        return
    place = os.stat(".")
    ends.poll()
    while _kill_leftovers_in(place):
        select.poll().poll(_PAUSE_MS)
    os._exit(0)


def _kill_leftovers_in(place: os.stat_result) -> bool:
    """Kill other processes with this working directory; return whether there was one."""
    found = False
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:  # skip ended processes, and those of other users, which are not readable
            if os.path.samestat(os.stat(f"/proc/{name}/cwd"), place):
                os.kill(int(name), signal.SIGKILL)
                found = True
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
