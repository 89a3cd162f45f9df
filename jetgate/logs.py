"""The log of a command on stderr: each event is one line, as text or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum

from core.runtime.log_lines import OneLine

# Least level of each library's messages. While PostgreSQL is unavailable, jetgate's own messages
# are clearer. A client that sends invalid HTTP gets an error response; operators need no message.
_QUIET = {
    "alembic": logging.WARNING,
    "asyncio": logging.CRITICAL,
    "asyncpg": logging.ERROR,
    "uvicorn": logging.ERROR,
}


class Level(StrEnum):
    """The least severe level that is logged (`--log-level`)."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The format of log lines (`--log-format`)."""

    TEXT = "text"
    JSON = "json"


def configure(level: Level, form: Format) -> None:
    """Configure the log of the process: level, format, and quieter libraries. Output is stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is Format.JSON else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # an unwritable log must not print tracebacks
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(least)


class TextLines(OneLine):
    """Log formatter of text lines, such as `2026-01-02T15:04:05.000Z INFO    text`."""

    def head(self, record: logging.LogRecord) -> str:
        """Return time and level, the part of a line before the text."""
        return f"{_time(record)} {record.levelname:<7} "


class JsonLines(logging.Formatter):
    """Log formatter of one JSON object per line.

    Members: `time`, `level`, `logger`, `message`, `exception` if there is one, and the attribute
    `fields` of the log record.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        event = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        event |= getattr(record, "fields", {})
        return json.dumps(event, default=str, separators=(",", ":"))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
