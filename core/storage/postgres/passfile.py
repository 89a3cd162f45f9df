"""Reads passwords from files: `.pgpass` files of libpq, and files that contain only a password."""

import logging
import re
import stat
from pathlib import Path

from core.errors import OperatorError

log = logging.getLogger(__name__)

_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO


def password_in(file: str) -> str:
    """Return the content of a password file, without the line end.

    Raises:
        OperatorError: The file cannot be read, or is empty.
    """
    try:
        password = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise OperatorError(f"cannot read the password file {file}: {reason.lower()}") from error
    if not password:
        raise OperatorError(f"the password file {file} is empty")
    return password


def password_for(file: str, host: str, port: int, database: str, user: str) -> str | None:
    """Return the password of the first line of a `.pgpass` file that matches; None if none does.

    A file that group or others may access is not read; a warning is logged.
    """
    path = Path(file)
    try:
        if not path.is_file():
            return None
        if path.stat().st_mode & _OTHER_USERS:
            log.warning("%s is not read: group or others may use it (chmod 600)", path)
            return None
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        log.warning("%s cannot be read: %s", path, error)
        return None
    # A Unix socket, in any directory, is on this machine.
    asked = ("localhost" if host.startswith("/") else host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", each) for each in re.findall(_FIELD, line)]
        if line.startswith("#") or len(fields) < len(asked) + 1:
            continue
        if all(mine in ("*", theirs) for mine, theirs in zip(fields, asked, strict=False)):
            return fields[len(asked)]
    return None


_FIELD = re.compile(r"(?:^|:)((?:[^:\\]|\\.)*)")
