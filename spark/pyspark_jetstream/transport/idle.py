"""A pool of idle connections to PostgreSQL, shared by the successive tasks of one process.

Opening a connection takes longer than a small task, because the driver reads the catalog of types
each time. A connection closes after `IDLE_S` seconds without use.
"""

import os
import threading

from pyspark_jetstream.transport.adbc import AdbcSession

IDLE_S = 10.0
"""Seconds after which an unused connection closes."""
_AT_MOST = 4

_lock = threading.Lock()
_idle: dict[tuple[int, str], list[AdbcSession]] = {}


def acquire(dsn: str) -> AdbcSession | None:
    """Remove an idle connection to this database from the pool and return it; None without one."""
    with _lock:
        waiting = _idle.get(_key(dsn))
        return waiting.pop() if waiting else None


def release(dsn: str, session: AdbcSession) -> None:
    """Return a connection to the pool.

    Closes it instead if a result was not read to its end, or the pool has 4 connections to this
    database.
    """
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
