"""A power cut for PostgreSQL: of its log nothing is left but what it had flushed to the disk.

After a `kill -9` the kernel still has what was written and not flushed; after a power cut it has
not. The log is cut off at the position up to which PostgreSQL knows it to be on the disk. That is
read while every process that could answer a COMMIT is stopped, so whatever anybody was told is
before it. Data files stay as they are: none has a page whose log was not flushed before.
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


def cut(postmaster: int, dsn: str, data: Path) -> None:
    """End PostgreSQL as a power cut does; it may be started again as soon as this returns.

    Args:
        postmaster: Its process id.
        dsn: Where a session is opened that reads the position.
        data: The data directory.

    Raises OSError, TimeoutError or asyncpg.PostgresError when there is no session to be had:
    nothing was done then.
    """
    asyncio.run(_cut(postmaster, dsn, data / "pg_wal"))


async def _cut(postmaster: int, dsn: str, log: Path) -> None:
    session = await asyncpg.connect(dsn, timeout=_CONNECT_S)
    try:
        reader = session.get_server_pid()
        await session.fetchrow(_STATE)  # everything that it needs is loaded from now on
        try:
            _send(signal.SIGSTOP, postmaster)  # nobody is born or buried
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
    """Wait until each of these processes is in one of the states, as /proc has them."""
    eventually(lambda: all(_state(pid) in states for pid in pids))


def _state(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def _forget(log: Path, end: int, timeline: int, size: int) -> None:
    """Make zeros of the log from a position on: that of the segments behind it, too."""
    segment, offset = divmod(end, size)
    high, low = divmod(segment, (1 << 32) // size)
    last = f"{timeline:08X}{high:08X}{low:08X}"
    for file in log.iterdir():
        if len(file.name) == len(last) and file.name >= last:
            with file.open("r+b") as opened:
                opened.truncate(offset if file.name == last else 0)
                opened.truncate(size)
