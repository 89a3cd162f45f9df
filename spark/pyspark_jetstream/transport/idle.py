"""Connections to PostgreSQL that one task has left and the next one of its process may have.

A connection takes longer to make than a small task to run: the driver reads the catalogue of types
each time. Those that nobody wants are closed.
"""

import os
import threading

from pyspark_jetstream.transport.adbc import AdbcSession

IDLE_S = 10.0
"""How long a connection waits for somebody, in seconds."""
_AT_MOST = 4

_lock = threading.Lock()
_idle: dict[tuple[int, str], list[AdbcSession]] = {}


def take(dsn: str) -> AdbcSession | None:
    """A connection to this database that nobody uses; None where there is none."""
    with _lock:
        waiting = _idle.get(_key(dsn))
        return waiting.pop() if waiting else None


def leave(dsn: str, session: AdbcSession) -> None:
    """Give a connection to whoever comes next, or close it."""
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
    """A process that was forked must not use the connections of the one before."""
    return os.getpid(), dsn
