"""A simulated power cut for PostgreSQL: its log keeps only the flushed part.

After a `kill -9` the kernel still has data that was written and not flushed; after a power cut it
has not. The log is truncated at PostgreSQL's own flush position. That position is read while every
process that could answer a COMMIT is stopped, so every answer sent before refers to flushed data.
Data files stay unchanged: PostgreSQL writes a page only after the flush of its log.
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
    """Stop PostgreSQL as a power cut does; it may be started again as soon as this returns.

    Args:
        postmaster: Process id of the postmaster.
        dsn: Connection string for the session that reads the position.
        data: The data directory.

    Raises:
        OSError, TimeoutError, asyncpg.PostgresError: No session is available; PostgreSQL is
            unchanged.
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
    """Wait until each of these processes is in one of the states of /proc."""
    eventually(lambda: all(_state(pid) in states for pid in pids))


def _state(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def _forget(log: Path, end: int, timeline: int, size: int) -> None:
    """Overwrite the log with zeros from a position on, including later segments."""
    segment, offset = divmod(end, size)
    high, low = divmod(segment, (1 << 32) // size)
    last = f"{timeline:08X}{high:08X}{low:08X}"
    for file in log.iterdir():
        if len(file.name) == len(last) and file.name >= last:
            with file.open("r+b") as opened:
                opened.truncate(offset if file.name == last else 0)
                opened.truncate(size)
