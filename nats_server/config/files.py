"""Reads configuration files, and those that they include."""

import os
from pathlib import Path

from core.config.grammar import GrammarError
from core.errors import OperatorError


def text_of(path: str) -> str:
    """What a file says; bytes that are no UTF-8 keep nobody from reading the rest.

    Raises:
        OperatorError: it cannot be read.
    """
    try:
        # Line ends stay as they are: a bare carriage return is one too.
        return Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        doing = "read" if isinstance(error, IsADirectoryError) else "open"
        raise OperatorError(f"{doing} {path}: {reason}") from error


def included(path: str, including: str) -> tuple[str, str]:
    """The name and the text of an included file.

    As for the reference server every path, also one that begins with a slash, is one below the
    directory of the file that includes it.

    Raises:
        GrammarError: it cannot be read.
    """
    below = os.path.join(os.path.dirname(including), path.lstrip("/"))
    name = os.path.normpath(below or ".")
    try:
        return name, text_of(name)
    except OperatorError as error:
        raise GrammarError(f"error parsing include file '{path}', {error}") from error
