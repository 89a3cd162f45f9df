"""Creates data directories as copies of a template.

`initdb` takes half a second or more, a copy a tenth of that. The template is in the user's cache;
its name contains everything it depends on. It is created by one rename, so that processes may race,
and has a manifest of sizes and checksums: a damaged template is detected while it is copied, and
created anew.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from core.errors import OperatorError
from core.storage.postgres.embedded.installation import (
    Account,
    Installation,
    cache_directory,
)

DATABASE = "jetgate"
SUPERUSER = "postgres"
_MANIFEST = "jetgate-manifest.json"
_ATTEMPTS = 3
_FORMAT = 1  # part of the name: raise it when `_prepare` changes


class _Damaged(Exception):
    """The template does not agree with its manifest."""


def new_data_directory(installation: Installation, target: Path, *, durable: bool = True) -> None:
    """Create a data directory with an empty database `jetgate`.

    Args:
        installation: whose `initdb` to use; its account will own the directory.
        target: a path that does not exist; it appears complete or not at all.
        durable: whether every file is forced to disk before it appears.

    Raises:
        OperatorError: it cannot be created.
    """
    template = cache_directory() / f"template-{_FORMAT}-{installation.build}"
    unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}.new-", dir=target.parent))
    try:
        _fill(unfinished, template, installation)
        if durable:
            _force_to_disk(unfinished)
        unfinished.rename(target)
        if durable:
            _fsync(target.parent)
    except OSError as error:
        raise OperatorError(f"cannot create the data directory {target}: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(target: Path, template: Path, installation: Installation) -> None:
    damaged = -1
    for _ in range(_ATTEMPTS):
        with _locked(template, fcntl.LOCK_SH):
            version = _version_of(template)
            if version is not None and version != damaged:
                try:
                    return _copy(template, target, installation.account)
                except (_Damaged, FileNotFoundError, KeyError, TypeError, ValueError):
                    damaged = version
                    _empty(target)
        with _locked(template, fcntl.LOCK_EX):
            # Another process may have created it while this one waited for the lock.
            version = _version_of(template)
            if version is None or version == damaged:
                _make(template, installation)
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
    """Return a version, which changes when the template is created anew; None if missing."""
    try:
        return (template / _MANIFEST).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _make(template: Path, installation: Installation) -> None:
    shutil.rmtree(template, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{template.name}.", dir=template.parent))
    try:
        if installation.account.switch:
            os.chown(scratch, installation.account.uid, installation.account.gid)
        data = scratch / "data"
        _prepare(installation, data)
        (data / _MANIFEST).write_text(json.dumps(_manifest_of(data)))
        data.rename(template)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _prepare(installation: Installation, data: Path) -> None:
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
    )
    installation.run(
        "postgres", "--single", "-D", str(data), "postgres", stdin=f"create database {DATABASE}\n"
    )


def _manifest_of(data: Path) -> dict[str, list[object]]:
    directories: list[object] = []
    files: list[object] = []
    for folder, folders, names in os.walk(data):
        place = Path(folder).relative_to(data)
        directories += [str(place / name) for name in folders]
        for name in names:
            content = (Path(folder) / name).read_bytes()
            files.append([str(place / name), len(content), zlib.crc32(content)])
    return {"directories": directories, "files": files}


def _copy(template: Path, target: Path, account: Account) -> None:
    # For a thousand files: as few system calls as possible for each.
    manifest = json.loads((template / _MANIFEST).read_text())
    source, goal = str(template), str(target)
    made = [goal]
    for name in manifest["directories"]:
        os.mkdir(f"{goal}/{name}", 0o700)
        made.append(f"{goal}/{name}")
    for name, size, checksum in manifest["files"]:
        with open(f"{source}/{name}", "rb", buffering=0) as file:
            content = file.read()
        if len(content) != size or zlib.crc32(content) != checksum:
            raise _Damaged(f"{source}/{name} is damaged")
        handle = os.open(f"{goal}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb", buffering=0) as file:
            if account.switch:
                os.fchown(handle, account.uid, account.gid)
            written = file.write(content)
        if written != size:
            raise OSError(f"{goal}/{name}: {written} of {size} bytes written")
    if account.switch:
        for path in made:
            os.chown(path, account.uid, account.gid)


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _force_to_disk(directory: Path) -> None:
    """Flush all files to disk; PostgreSQL flushes only the files that it writes to."""
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
