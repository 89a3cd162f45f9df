"""A check that no other user of the machine can have prepared a directory for jetgate.

In a directory that every user may write, such as /tmp, another user may have put files whose
configuration runs programs, or symbolic links to files of this user. Each path component below such
a directory must therefore belong to the user of this process or to root. Other components are not
checked.
"""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from core.errors import OperatorError


def refuse_foreign(directory: Path) -> None:
    """Check the owners of an existing directory and of its path components.

    The rule is in the description of this module; both the given path and the path with symbolic
    links resolved are checked.

    Raises:
        OperatorError: Below a directory that every user may write, a component belongs to another
            user or is writable for every user; or a component cannot be read.
    """
    lexical = Path(os.path.abspath(directory))
    for path in (lexical, Path(os.path.realpath(directory))):
        try:
            _check(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OperatorError(f"cannot use data directory {directory}: {reason}") from error


def _check(path: Path) -> None:
    shared: Path | None = None
    for part in _parts(path):
        if shared is not None:
            own, target = part.lstat(), part.stat()
            for owner in (own.st_uid, target.st_uid):
                if owner not in (0, os.geteuid()):
                    raise OperatorError(
                        f"{part} belongs to {_name(owner)}, and {shared}, where it lies, is"
                        " everybody's: remove it, or choose another directory"
                    )
            if target.st_mode & stat.S_IWOTH and not target.st_mode & stat.S_ISVTX:
                raise OperatorError(
                    f"{part} is writable for every user, and lies in {shared}: chmod o-w {part}"
                )
        if part.stat().st_mode & stat.S_IWOTH:
            shared = part


def _parts(path: Path) -> Iterator[Path]:
    yield from reversed(path.parents)
    yield path


def _name(uid: int) -> str:
    try:
        return f'user "{pwd.getpwuid(uid).pw_name}"'
    except KeyError:
        return f"user id {uid}"
