"""The program that unpacks a template into a new data directory.

`unpack.py UID GID PARENT ARCHIVE TARGET` runs in parallel to the process that starts it, which
meanwhile imports its modules. To be fast, the program imports nothing of jetgate. It switches to
the unprivileged user UID (-1: no switch), which then owns the files, and is killed when the process
PARENT ends. Exit code 3: the archive is damaged.

An archive is a line `CHECKSUM SIZE`, an index of SIZE bytes, and the contents of the files. A line
of the index is `d NAME` for a directory, or `f SIZE STORED CHECKSUM NAME`: a file has STORED bytes
of content, then zeros up to SIZE.
"""

import ctypes
import os
import signal
import sys
import zlib
from typing import NoReturn

DAMAGED = 3
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Create the directories and files of an archive in the existing directory TARGET."""
    uid, gid, parent = (int(argument) for argument in sys.argv[1:4])
    libc = ctypes.CDLL(None, use_errno=True)
    with open(sys.argv[4], "rb", buffering=0) as file:
        archive = file.read()
    os.chdir(sys.argv[5])  # before the switch: the other user may not be able to enter its parents
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the prctl
            sys.exit(1)
    os.umask(0o077)
    try:
        _unpack(archive)
    except OSError as error:
        sys.exit(str(error))


def _unpack(archive: bytes) -> None:
    start, index = _index(archive)
    for line in index.decode().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "d":
            os.mkdir(rest, 0o700)
            continue
        size, stored, checksum, name = rest.split(" ", 3)
        content = archive[start : start + int(stored)]
        start += len(content)
        if zlib.crc32(content) != int(checksum):
            _damaged()
        _write(name, content, int(size))


def _index(archive: bytes) -> tuple[int, bytes]:
    """Return the offset of the contents, and the index before them."""
    head, _, _ = archive[:64].partition(b"\n")
    fields = head.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        _damaged()
    start = len(head) + 1
    index = archive[start : start + int(fields[1])]
    if zlib.crc32(index) != int(fields[0]):
        _damaged()
    return start + len(index), index


def _write(name: str, content: bytes, size: int) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if content and os.write(handle, content) != len(content):
            raise OSError(f"{name}: not written as a whole")
        if size > len(content):
            # Allocate the space now: PostgreSQL could not handle a full disk later.
            os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)


def _damaged() -> NoReturn:
    sys.exit(DAMAGED)


if __name__ == "__main__":
    main()
