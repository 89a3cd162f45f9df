"""Reader of the configuration file and of the files that it includes."""

import os
from pathlib import Path

from core.config.grammar import GrammarError
from core.errors import OperatorError


def text_of(path: str) -> str:
    """Return the text of a file; bytes that are not UTF-8 become U+FFFD.

    Raises:
        OperatorError: The file cannot be read.
    """
    try:
        # Line ends stay unchanged, because a bare carriage return is a line end too.
        return Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        doing = "read" if isinstance(error, IsADirectoryError) else "open"
        raise OperatorError(f"{doing} {path}: {reason}") from error


def included(path: str, including: str) -> tuple[str, str]:
    """Return the name and the text of a file that another one includes.

    As in nats-server, every path is relative to the directory of the including file, even one that
    begins with a slash.

    Raises:
        GrammarError: The file cannot be read.
    """
    below = os.path.join(os.path.dirname(including), path.lstrip("/"))
    name = os.path.normpath(below or ".")
    try:
        return name, text_of(name)
    except OperatorError as error:
        raise GrammarError(f"error parsing include file '{path}', {error}") from error
