"""A data directory: its paths, and the processes left in it by a killed jetgate.

DIR/lock          locked (flock) by the jetgate that uses DIR (`core.storage.directory_lock`)
DIR/pg            PostgreSQL's data, and its socket while it runs
DIR/postgres.log  output of PostgreSQL
DIR/ports.json    the addresses, while they are served
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.errors import OperatorError
from core.storage.postgres.embedded.installation import Account, run_as

SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_MAX = 100  # sockaddr_un has 104 bytes on macOS, 108 on Linux
_DATA_PATH_MAX = 900  # PostgreSQL cuts the paths of files in it at 1023 (MAXPGPATH)
_QUIT_TIMEOUT_S, _KILL_TIMEOUT_S = 5.0, 10.0
_POLL_S = 0.01
_OWN_DIRECTORY = "/proc/self/cwd"
_SHARED_MEMORY_LINE = 6  # of postmaster.pid
_SEGMENT_BYTES = 56
_IPC_RMID = 0


def path_for(data: Path, account: Account) -> str:
    """Return the path of the data directory to pass to PostgreSQL as `-D`.

    If PostgreSQL runs as another user (`account`), that user often cannot enter directories of root
    (/root, those of mktemp). Permissions are not changed: PostgreSQL is then started in the
    directory, and the result names its working directory. The same is done for a path that is too
    long.

    Raises:
        OperatorError: The directory cannot be reached; the text names the directory that prevents
            it.
    """
    directory = data.parent
    is_short = len(os.fsencode(data)) <= _DATA_PATH_MAX
    if is_short and (not account.switch or _enters(data, account)):
        return str(data)
    if Path(_OWN_DIRECTORY).exists():
        return _OWN_DIRECTORY
    if not is_short:
        raise OperatorError(f"cannot use data directory {directory}: its path is too long")
    barred = directory
    for place in (*reversed(directory.parents), directory):
        if not _enters(place, account):
            barred = place
            break
    raise OperatorError(
        f"cannot use data directory {directory}: PostgreSQL refuses to run as root, and user"
        f" {account.name}, which runs it instead, cannot enter {barred}: choose a directory with"
        " --data that every user can reach, or run jetgate as an ordinary user"
    )


def _enters(directory: Path, account: Account) -> bool:
    done = run_as(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)])
    return done.returncode == 0


def open_path(data: Path) -> int:
    """Open the data directory as a path (O_PATH), not for reading; return the descriptor.

    -1 if the system has no `/proc`.
    """
    if not Path(_OWN_DIRECTORY).exists():
        return -1
    return os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def socket_place(data: Path, handle: int) -> str:
    """Return the directory of PostgreSQL's Unix socket for connection strings: the data directory.

    A socket in the data directory is removed with it, and no other user can enter. But a socket
    address must be short, and commas separate the hosts of a connection string. If the path is too
    long or has a comma, the result is a path through `handle`, an open descriptor of the directory.

    Raises:
        OperatorError: The path cannot be used, and `handle` is -1.
    """
    if not (wrong := _wrong_for_clients(data)):
        return str(data)
    if handle >= 0:
        return f"/proc/{os.getpid()}/fd/{handle}"
    raise OperatorError(f"cannot use data directory {data.parent}: {wrong}; choose another")


def _wrong_for_clients(data: Path) -> str:
    """Return the reason why clients cannot use a directory for a socket; empty if they can."""
    name = os.fsencode(data / SOCKET_NAME)
    if len(name) >= _SOCKET_PATH_MAX:
        return "its path is too long for PostgreSQL's socket"
    if b"," in name:
        return "its path has a comma, which separates the hosts of a connection string"
    if name.decode(errors="replace").encode() != name:
        return "its path is not UTF-8"
    return ""


def mark_shared_memory_for_removal(data: Path, postmaster: int) -> bool:
    """Mark PostgreSQL's System V shared memory for removal when its last process detaches.

    PostgreSQL keeps a segment of a few bytes to detect processes of an earlier server. Without the
    mark it remains after a `kill -9` of all processes, until the next start on the same data. A
    marked segment works as before while a process is attached.

    Returns:
        False if the server has no segment yet.
    """
    try:
        fields = (
            (data / "postmaster.pid")
            .read_text(errors="replace")
            .splitlines()[_SHARED_MEMORY_LINE]
            .split()
        )
        key, segment = int(fields[0]), int(fields[1])
    except (OSError, ValueError, IndexError):
        return False
    for found in _segments():
        if (found.key, found.id, found.creator) == (key, segment, postmaster):
            _remove_segment(found)
    return True


def remove_lost_memory(account: Account) -> None:
    """Remove System V segments of servers that were killed before the segments were marked.

    A segment is removed if it has no attached process, PostgreSQL's size and user, and a creator
    that has ended. The next server on the same data creates another segment.
    """
    for found in _segments():
        is_ours = (found.owner, found.size, found.mode & 0o777) == (
            account.uid,
            _SEGMENT_BYTES,
            0o600,
        )
        if is_ours and not found.users and found.creator and _is_gone(found.creator):
            _remove_segment(found)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A System V shared memory segment, as Linux lists it.

    `size` is in bytes; `users` is the number of attached processes.
    """

    key: int
    id: int
    mode: int
    size: int
    creator: int
    users: int
    owner: int


def _segments() -> list[_Segment]:
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return []
    rows = (line.split() for line in lines)
    return [
        _Segment(int(r[0]), int(r[1]), int(r[2], 8), int(r[3]), int(r[4]), int(r[6]), int(r[7]))
        for r in rows
    ]


def _remove_segment(segment: _Segment) -> None:
    if ctypes.CDLL(None).shmctl(segment.id, _IPC_RMID, None) == 0:
        return
    if os.geteuid() == 0 != segment.owner:  # root without the right to do so: the owner removes it
        # That user may be unable to read Python's library: it is loaded before the switch.
        code = (
            "import ctypes, os; c = ctypes.CDLL(None);"
            f" os.setuid({segment.owner}); c.shmctl({segment.id}, {_IPC_RMID}, None)"
        )
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)


def postmaster_status(data: Path) -> tuple[int, str]:
    """Return (process id, status) from `postmaster.pid` in the data directory.

    (0, "") if the file is missing or incomplete. The status is `ready` if connections are accepted.
    """
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
        return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
    except (OSError, ValueError, IndexError):
        return 0, ""


async def stop_leftovers(data: Path, report: Callable[[str], None]) -> None:
    """Stop a PostgreSQL server that a killed jetgate has left running in a data directory.

    The caller holds the lock of the directory. `report` is called with a text for the operator.

    Raises:
        OperatorError: A process that uses the directory does not end within 10 seconds.
    """
    pid, _ = postmaster_status(data)
    if pid and _is_postgres_in(data, pid):
        report(f"stopping a PostgreSQL left behind in {data} (process {pid})")
        _signal(pid, signal.SIGQUIT)
        await _until_gone([pid], _QUIT_TIMEOUT_S)
    # Without their postmaster, backends end by themselves, but perhaps only after their query; a
    # new postmaster would refuse to start beside them.
    rest = processes_in(data)
    for process in rest:
        _signal(process, signal.SIGKILL)
    if not await _until_gone(rest, _KILL_TIMEOUT_S):
        raise OperatorError(f"processes {rest} still use {data} and do not end")
    # The process id may belong to another program by now; PostgreSQL would refuse to start.
    pid, _ = postmaster_status(data)
    if pid and not _is_postgres_in(data, pid):
        (data / "postmaster.pid").unlink(missing_ok=True)


def processes_in(data: Path) -> list[int]:
    """Return the ids of processes whose working directory is the data directory.

    Only the processes of PostgreSQL have it.
    """
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [number for number in numbers if _is_in(data, number)]


def _is_in(data: Path, pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(data.resolve())
    except OSError:
        return False


def _is_postgres_in(data: Path, pid: int) -> bool:
    if Path("/proc/self").exists():
        return _is_in(data, pid)
    listed = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return "postgres" in listed.stdout and str(data) in listed.stdout


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_gone(pid: int) -> bool:
    try:
        # The state follows the name in parentheses; a zombie uses no files any more.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return Path("/proc/self").exists()  # the file vanished between the two checks


async def _until_gone(pids: list[int], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            while not all(_is_gone(pid) for pid in pids):  # noqa: ASYNC110 (not our children)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return False
    return True
