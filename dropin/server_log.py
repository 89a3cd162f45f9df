"""The log of `jetgate-nats-server`: lines in nats-server's format, on stderr, in a file or syslog.

[pid] 2026/01/02 15:04:05.000000 [INF] text
"""

import contextlib
import logging
import os
import sys
import time
from datetime import UTC, datetime
from functools import partial

from core.errors import OperatorError
from core.pubsub.trace_log import TraceLog
from core.runtime.log_lines import OneLine
from dropin.config.options import Options

log = logging.getLogger(__name__)

FATAL = logging.CRITICAL
TRACE = logging.INFO - 5
"""Level of protocol traces. It is above debug, because the two have separate switches."""
_LABELS = {
    logging.DEBUG: "DBG",
    TRACE: "TRC",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    FATAL: "FTL",
}
_SYSLOG = "/dev/log"
_QUIET = ("alembic", "asyncio", "asyncpg")


class NoLog(OperatorError):
    """The log file cannot be opened, or syslog is unreachable.

    The text of the error begins with the time.
    """

    def __str__(self) -> str:
        return time.strftime("%Y/%m/%d %H:%M:%S ") + super().__str__()


class Lines(OneLine):
    """Log formatter of lines such as `[pid] 2026/01/02 15:04:05.000000 [INF] text`.

    Args:
        with_time: False leaves out the time.
        in_utc: True for times in UTC, False for local time.
    """

    def __init__(self, *, with_time: bool, in_utc: bool) -> None:
        super().__init__()
        self._with_time, self._in_utc = with_time, in_utc
        self._head = f"[{os.getpid()}] "

    def head(self, record: logging.LogRecord) -> str:
        """Return process id, time and level, the part of a line before the text."""
        when = ""
        if self._with_time:
            moment = datetime.fromtimestamp(record.created, UTC if self._in_utc else None)
            when = moment.strftime("%Y/%m/%d %H:%M:%S.%f ")
        return f"{self._head}{when}[{_LABELS.get(record.levelno, 'INF')}] "


class _File(logging.FileHandler):
    """A log file that is renamed and replaced by a new one when it exceeds a size in bytes."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, "a")
        self._limit = limit

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        with contextlib.suppress(OSError):  # while the disk is full
            super().emit(record)
            if self._limit > 0 and self.stream is not None and self.stream.tell() > self._limit:
                self._set_aside(record)

    def close(self) -> None:
        """Close the file, even if its last bytes cannot be written."""
        with contextlib.suppress(OSError):
            super().close()

    def _set_aside(self, record: logging.LogRecord) -> None:
        self.close()
        stamp = time.strftime("%Y.%m.%d.%H.%M.%S", time.localtime(record.created))
        fraction = f"{int(record.msecs * 1_000_000):09d}"
        with contextlib.suppress(OSError):
            os.rename(self.baseFilename, f"{self.baseFilename}.{stamp}.{fraction}")
        self.stream = self._open()

    def reopen(self) -> None:
        """Reopen the file after another program has moved it."""
        self.acquire()
        try:
            self.close()
            self.stream = self._open()
        finally:
            self.release()


def configure(options: Options) -> None:
    """Configure level, format and output of the process's log by the options.

    Raises:
        NoLog: The file cannot be opened, or syslog is unreachable.
    """
    root = logging.getLogger()
    logging.raiseExceptions = False  # an unwritable log must not print tracebacks
    handler = _handler(options)
    handler.setFormatter(
        Lines(
            with_time=options.logtime,
            in_utc=options.logtime_utc,
        )
    )
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if options.debug else TRACE if options.trace else logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def trace_log(options: Options) -> TraceLog | None:
    """Return the log of the protocol operations of clients; None if tracing is off."""
    if not options.trace:
        return None
    return TraceLog(
        write=partial(log.log, TRACE, "%s"),
        max_payload=options.max_traced_msg_len,
        headers_only=options.trace_headers,
    )


def reopen() -> bool:
    """Reopen the log file, after another program has renamed it; return False if there is none."""
    files = [handler for handler in logging.getLogger().handlers if isinstance(handler, _File)]
    for handler in files:
        handler.reopen()
    return bool(files)


def _handler(options: Options) -> logging.Handler:
    if options.log_file:
        try:
            return _File(options.log_file, options.log_size_limit)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            path = options.log_file
            raise NoLog(f"error opening file: open {path}: {reason}") from error
    if options.syslog or options.remote_syslog:
        return _syslog(options.remote_syslog)
    return logging.StreamHandler(sys.stderr)


def _syslog(remote: str) -> logging.Handler:
    from logging.handlers import SysLogHandler  # rarely needed

    if not remote:
        # SysLogHandler itself would fail only with the first line, and print an error for each.
        if not os.path.exists(_SYSLOG):
            raise NoLog('error connecting to syslog: "Unix syslog delivery error"')
        return SysLogHandler(_SYSLOG)
    host, _, port = remote.partition("://")[2].partition(":")
    try:
        return SysLogHandler((host or "localhost", int(port or 514)))
    except (OSError, ValueError) as error:
        raise NoLog(f'error connecting to syslog: "{error}"') from error
