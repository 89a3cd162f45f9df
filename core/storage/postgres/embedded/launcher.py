"""The program between us and `postgres`: `launcher.py UID GID PARENT DATA postgres ...`.

It becomes the unprivileged user (UID -1: stays who it is), asks the kernel to send SIGQUIT, an
immediate shutdown, when the process that started it dies, and turns into `postgres`. The request
is made after the change of user, which would void it. It imports nothing of jetgate, to be quick,
and nothing late: the other user may not be able to read Python's library. Where the kernel has no
such request (macOS), an orphan is stopped by the next start instead.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Drop privileges, tie our life to the parent's, become the given program."""
    uid, gid, parent = (int(argument) for argument in sys.argv[1:4])
    command = sys.argv[5:]
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(sys.argv[4])  # while we may: the other user may be barred from a parent of it
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    os.umask(0o077)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
