"""One log record per line: names from clients and other servers cannot forge another record."""

import logging


class OneLine(logging.Formatter):
    """A formatter of text lines that escapes line ends and control characters.

    The whole line is escaped in this one place, so that no message and no exception is missed. A
    line without such characters stays as it is.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return on_one_line(self.head(record) + text)

    def head(self, record: logging.LogRecord) -> str:
        """Return the part before the text."""
        return ""


def on_one_line(text: str) -> str:
    """Escape the characters that end a line, or that a terminal interprets."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
