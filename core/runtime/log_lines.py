"""One record of the log, one line: what clients and other servers name cannot forge another."""

import logging


class OneLine(logging.Formatter):
    """A formatter of text lines. What would end a line, or what a terminal obeys, is escaped.

    This is done here and nowhere else, for the whole line, so that no message and no exception can
    be forgotten. A line without such characters stays as it is.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return on_one_line(self.head(record) + text)

    def head(self, record: logging.LogRecord) -> str:
        """Return what stands before the text."""
        return ""


def on_one_line(text: str) -> str:
    """Escape what would end a line, or move the cursor of a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
