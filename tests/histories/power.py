"""A simulated power cut for PostgreSQL: only the flushed part of its WAL remains.

After `kill -9` the kernel still has data that was written but not flushed; after a power cut it has
not. `simulate_failure` suspends every process that could answer a COMMIT, reads PostgreSQL's flush
position, kills the processes and erases the WAL after that position. So every COMMIT that was
answered must be in the remaining WAL. Data files stay unchanged, because PostgreSQL writes a page
only after it has flushed the WAL for it.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import asyncpg

from tests.support.eventually import eventually
from tests.support.jetgate import _descendants

_CONNECT_S = 5.0
_READ_S = 20.0
_STATE = """
    select pg_current_wal_flush_lsn() - '0/0' as flushed, timeline_id as timeline,
           pg_size_bytes(current_setting('wal_segment_size')) as size
      from pg_control_checkpoint()
"""


def simulate_failure(postmaster: int, dsn: str, data: Path) -> None:
    """Kill PostgreSQL and erase its unflushed WAL. It may be started again afterwards.

    Args:
        postmaster: Process id of the postmaster.
        dsn: Connection string for the session that reads the flush position.
        data: The data directory.

    Raises:
        OSError, TimeoutError, asyncpg.PostgresError: No session could be opened; PostgreSQL
            continues to run.
    """
    asyncio.run(_switch_off(postmaster, dsn, data / "pg_wal"))


async def _switch_off(postmaster: int, dsn: str, log: Path) -> None:
    session = await asyncpg.connect(dsn, timeout=_CONNECT_S)
    try:
        reader = session.get_server_pid()
        await session.fetchrow(_STATE)  # load everything that the query needs
        try:
            _send(signal.SIGSTOP, postmaster)  # no process starts or is reaped from now on
            _wait_until([postmaster], "TtZX")
            others = [pid for pid in _descendants(postmaster) if pid != reader]
            _send(signal.SIGSTOP, *others)
            _wait_until(others, "TtZX")
            state = await session.fetchrow(_STATE, timeout=_READ_S)
            _send(signal.SIGKILL, reader, *others)
            _wait_until([reader, *others], "ZX")
            _forget(log, int(state["flushed"]), state["timeline"], state["size"])
        except BaseException:
            _send(signal.SIGCONT, *_descendants(postmaster), postmaster)
            raise
        _send(signal.SIGKILL, postmaster)
    finally:
        session.terminate()


def _send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_until(pids: list[int], states: str) -> None:
    """Wait until the state in `/proc` of each of these processes is one of the given letters."""
    eventually(lambda: all(_state(pid) in states for pid in pids))


def _state(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def _forget(log: Path, end: int, timeline: int, size: int) -> None:
    """Overwrite the WAL with zeros from position `end` on, including later segment files."""
    segment, offset = divmod(end, size)
    high, low = divmod(segment, (1 << 32) // size)
    last = f"{timeline:08X}{high:08X}{low:08X}"
    for file in log.iterdir():
        if len(file.name) == len(last) and file.name >= last:
            with file.open("r+b") as opened:
                opened.truncate(offset if file.name == last else 0)
                opened.truncate(size)
