"""The program that starts `postgres`: `launcher.py UID GID PARENT DATA postgres ...`.

It switches to the unprivileged user (UID -1: no switch), asks the kernel (prctl) to send SIGKILL
when the parent process dies, and executes `postgres`. That is sent before anybody can have waited
for the parent, and leaves PostgreSQL no time to remove files. The prctl comes after
the switch, which would reset it. It imports nothing of jetgate, to be fast, and nothing after the
switch: the other user may not be able to read Python's library. Where there is no such prctl
(macOS), an orphaned server is stopped at the next start.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Drop privileges, ask to be signalled when the parent dies, execute the given program."""
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
        if os.getppid() != parent:  # it died before the prctl
            sys.exit(1)
    os.umask(0o077)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
