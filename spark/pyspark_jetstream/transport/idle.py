"""A pool of idle connections to PostgreSQL, shared by the tasks of one process in sequence.

Opening a connection takes longer than a small task, because the driver reads the catalog of types
each time. Connections close after `IDLE_S` without use.
"""

import os
import threading

from pyspark_jetstream.transport.adbc import AdbcSession

IDLE_S = 10.0
"""Limit of idle time, in seconds."""
_AT_MOST = 4

_lock = threading.Lock()
_idle: dict[tuple[int, str], list[AdbcSession]] = {}


def acquire(dsn: str) -> AdbcSession | None:
    """Acquire an idle connection to this database; None if there is none."""
    with _lock:
        waiting = _idle.get(_key(dsn))
        return waiting.pop() if waiting else None


def release(dsn: str, session: AdbcSession) -> None:
    """Return a connection to the pool, or close it if it is unclean or the pool is full."""
    with _lock:
        waiting = _idle.setdefault(_key(dsn), [])
        is_kept = session.is_clean and len(waiting) < _AT_MOST
        if is_kept:
            waiting.append(session)
    if not is_kept:
        session.close()
        return
    timer = threading.Timer(IDLE_S, _expire, (_key(dsn), session))
    timer.daemon = True
    timer.start()


def _expire(key: tuple[int, str], session: AdbcSession) -> None:
    with _lock:
        waiting = _idle.get(key, [])
        is_there = session in waiting
        if is_there:
            waiting.remove(session)
    if is_there:
        session.close()


def _key(dsn: str) -> tuple[int, str]:
    """Return the key of the pool: a forked process must not share connections of its parent."""
    return os.getpid(), dsn
