"""Creates PostgreSQL data directories as copies of a template.

`initdb` takes half a second or more, a copy a tenth of that. The template is one file in the cache
directory of the user, with a checksum for each file in it. Its name contains everything it depends
on. A rename creates it, so several processes may create it at the same time. A template that does
not match its checksums is replaced. It contains only the databases that are needed, because each
has three hundred files.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from core.errors import OperatorError
from core.storage.postgres.embedded import unpack
from core.storage.postgres.embedded.installation import (
    Account,
    Installation,
    Programs,
    cache_directory,
)

DATABASE = "jetgate"
SUPERUSER = "postgres"
_ATTEMPTS = 3
# `template1` stays: `create database` copies it.
_STATEMENTS = (
    f"create database {DATABASE} strategy file_copy",
    "update pg_database set datistemplate = false where datname = 'template0'",
    "drop database template0",
    "drop database postgres",
)
_DATABASES = 2
_FORMAT = 2  # part of the name: raise it when `_prepare` changes


class _Damaged(Exception):
    """Error: a template does not match its checksums."""


def new_data_directory(
    installation: Installation,
    target: Path,
    *,
    durable: bool = True,
    programs: Programs | None = None,
) -> None:
    """Create a data directory with an empty database `jetgate`.

    Args:
        installation: The installation whose `initdb` to use; its account will own the directory.
        target: The path of the directory, which must not exist; it appears complete or not at all.
        durable: True to flush every file to disk before the directory appears.
        programs: Runs the programs; the caller can kill them with `Programs.end`.

    Raises:
        OperatorError: The directory cannot be created.
    """
    template = cache_directory() / f"template-{_FORMAT}-{installation.build}"
    unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}.new-", dir=target.parent))
    try:
        _fill(unfinished, template, installation, programs or Programs())
        if durable:
            _force_to_disk(unfinished)
        unfinished.rename(target)
        if durable:
            _fsync(target.parent)
    except OSError as error:
        raise OperatorError(f"cannot create the data directory {target}: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(target: Path, template: Path, installation: Installation, programs: Programs) -> None:
    damaged = -1
    for _ in range(_ATTEMPTS):
        with _locked(template, fcntl.LOCK_SH):
            version = _version_of(template)
            if version is not None and version != damaged:
                try:
                    return _unpack(template, target, installation.account, programs)
                except _Damaged:
                    damaged = version
                    _empty(target)
        with _locked(template, fcntl.LOCK_EX):
            # Another process may have created it while this one waited for the lock.
            version = _version_of(template)
            if version is None or version == damaged:
                _make(template, installation, programs)
    raise OperatorError(f"the template {template} is damaged again and again: check its disk")


@contextlib.contextmanager
def _locked(template: Path, mode: int) -> Iterator[None]:
    """Lock a template (flock): shared to copy it, exclusive to create or delete it."""
    lock = os.open(template.with_name(f"{template.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, mode)
        yield
    finally:
        os.close(lock)


def _version_of(template: Path) -> int | None:
    """Return a version that changes when the template is replaced; None if it is missing."""
    try:
        return template.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _make(template: Path, installation: Installation, programs: Programs) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f"{template.name}.", dir=template.parent))
    try:
        if installation.account.switch:
            os.chown(scratch, installation.account.uid, installation.account.gid)
        data = scratch / "data"
        _prepare(installation, data, programs)
        archive = scratch / "archive"
        archive.write_bytes(_pack(data))
        archive.rename(template)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare(installation: Installation, data: Path, programs: Programs) -> None:
    locale = ["--locale=C"]
    if installation.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    installation.run(
        "initdb",
        "--auth=trust",
        "--data-checksums",
        "--encoding=UTF8",
        "--no-instructions",
        "--no-sync",
        f"--username={SUPERUSER}",
        f"--pgdata={data}",
        *locale,
        programs=programs,
    )
    single = ("postgres", "--single", "-F", "-D", str(data), "template1")
    installation.run(*single, stdin="".join(f"{line}\n" for line in _STATEMENTS), programs=programs)
    if len(list((data / "base").iterdir())) != _DATABASES:
        raise OperatorError("embedded PostgreSQL: the databases of the template cannot be made")
    installation.run("pg_resetwal", "-D", str(data), programs=programs)


def _pack(data: Path) -> bytes:
    """Return an archive of a directory, in the format of `unpack`."""
    index: list[str] = []
    contents: list[bytes] = []
    for folder, folders, names in os.walk(data):
        place = Path(folder).relative_to(data)
        index += [f"d {place / name}\n" for name in folders]
        for name in names:
            whole = (Path(folder) / name).read_bytes()
            content = whole.rstrip(b"\0")
            checksum = zlib.crc32(content)
            index.append(f"f {len(whole)} {len(content)} {checksum} {place / name}\n")
            contents.append(content)
    listed = "".join(index).encode()
    return b"%d %d\n%b%b" % (zlib.crc32(listed), len(listed), listed, b"".join(contents))


def _unpack(template: Path, target: Path, account: Account, programs: Programs) -> None:
    """Unpack a template into a directory, in another process so that this one can import
    modules.
    """
    if account.switch:
        os.chown(target, account.uid, account.gid)
    done = programs.run(
        [
            *(sys.executable, "-I", "-S", unpack.__file__),
            *(str(account.uid if account.switch else -1), str(account.gid), str(os.getpid())),
            *(str(template), str(target)),
        ]
    )
    if done.returncode == unpack.DAMAGED:
        raise _Damaged(f"{template} is damaged")
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or f"exit code {done.returncode}")


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _force_to_disk(directory: Path) -> None:
    """Flush all files to disk; PostgreSQL flushes only the files it writes to."""
    if sys.platform == "linux":
        # One call instead of a thousand, although it flushes the whole file system.
        handle = os.open(directory, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) == 0:
                return
        finally:
            os.close(handle)
    paths = [directory]
    for folder, folders, names in os.walk(directory):
        paths += [Path(folder) / name for name in (*folders, *names)]
    for path in paths:
        _fsync(path)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
