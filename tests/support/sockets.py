"""Which process has a connection, and what is unread of it, as Linux tells in /proc."""

import contextlib
import os
from pathlib import Path


def has_port(pid: int, port: int) -> bool:
    """Whether a process has a TCP socket over IPv4 whose own port is this one."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    with contextlib.suppress(OSError):  # it has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it is closed
                if os.readlink(descriptor) in inodes:
                    return True
    return False


def is_read(caller: tuple[str, int]) -> bool:
    """Whether the peer of a TCP connection over IPv4 on this machine has read what was sent to it.

    Args:
        caller: The address of the end that has sent.
    """
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == caller[1]:
            return int(fields[4].rpartition(":")[2], 16) == 0
    return True  # it has closed the connection
