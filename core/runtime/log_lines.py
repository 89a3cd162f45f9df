"""Escapes line ends in log records, so that a name from a client cannot forge another record."""

import logging


class OneLine(logging.Formatter):
    """A logging formatter that escapes line ends and control characters in the whole line.

    The line is escaped after formatting, so that no message and no exception is missed. A line
    without such characters is not changed.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record: head, message and traceback, escaped."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return on_one_line(self.head(record) + text)

    def head(self, record: logging.LogRecord) -> str:
        """Return the part of the line before the message, such as time and level; here empty."""
        return ""


def on_one_line(text: str) -> str:
    """Escape the characters of a text that end a line or that a terminal interprets."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
