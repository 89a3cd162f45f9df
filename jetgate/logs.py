"""The log of a command on stderr: one event is one line, as text or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum

from core.runtime.log_lines import OneLine

# What libraries say while PostgreSQL is away, the log of outages says better. That somebody sends
# other things than HTTP is told to him, not to the operator.
_QUIET = {
    "alembic": logging.WARNING,
    "asyncio": logging.CRITICAL,
    "asyncpg": logging.ERROR,
    "uvicorn": logging.ERROR,
}


class Level(StrEnum):
    """What is logged: this, and what is worse."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The form of a line."""

    TEXT = "text"
    JSON = "json"


def configure(level: Level, form: Format) -> None:
    """Send the log of the process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is Format.JSON else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a log that cannot be written is no reason to print more
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(least)


class TextLines(OneLine):
    """`2026-01-02T15:04:05.000Z INFO    text`."""

    def head(self, record: logging.LogRecord) -> str:
        """Return what stands before the text."""
        return f"{_time(record)} {record.levelname:<7} "


class JsonLines(logging.Formatter):
    """An object: `time`, `level`, `logger`, `message`, perhaps `exception`, fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
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
