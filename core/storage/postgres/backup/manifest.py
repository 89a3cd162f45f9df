"""The manifest of a backup: a JSON text with its streams and checksums of their messages.

If the backup is one file, the manifest is appended to it: pg_restore does not read that far. If the
backup is a directory, the manifest is the file `jetgate.json` in it.
"""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from crc32c import crc32c

from core.errors import OperatorError

SPAN_BITS = 10
"""Number of low bits of a sequence that are ignored to form a span: 1,024 sequences, one
checksum.
"""
SPAN = 1 << SPAN_BITS
_NAME = "jetgate.json"
_MAGIC = b"jetgate1"
_TRAILER = struct.Struct(">II8s")
_PIECE = 1 << 20


class StreamSums(msgspec.Struct, frozen=True):
    """A stream in the manifest of a backup, with the checksums of its messages.

    Attributes:
        stream: Number of the stream in the tables of the backup.
        account: Its account.
        name: Its name.
        first_seq: First sequence, by its head row.
        last_seq: Last sequence, by its head row.
        msgs: Number of messages, by its head row.
        rows: Number of stored rows, including those of removed messages.
        spans: (sequence >> 10, rows, checksum) of each range of 1,024 sequences that has rows.
    """

    stream: int
    account: str
    name: str
    first_seq: int
    last_seq: int
    msgs: int
    rows: int
    spans: list[tuple[int, int, int]]


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a backup.

    Attributes:
        revision: Revision of the database schema.
        jetgate: Version of jetgate that took the backup.
        postgresql: Version of the PostgreSQL server.
        taken: Time of the backup, as ISO 8601 in UTC.
        streams: The streams, ordered by number.
        files: SHA-256 of each file of the archive, by name; an archive of one file has the name "".
    """

    revision: str
    jetgate: str
    postgresql: str
    taken: str
    streams: list[StreamSums]
    files: dict[str, str]


def write(manifest: Manifest, archive: Path) -> None:
    """Write the manifest into the file or directory of a backup.

    Raises OSError if writing fails.
    """
    text = msgspec.json.encode(manifest)
    if archive.is_dir():
        (archive / _NAME).write_bytes(text)
        return
    with archive.open("ab") as file:
        file.write(text + _TRAILER.pack(len(text), crc32c(text), _MAGIC))


def read(archive: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        OperatorError: The archive cannot be read, or is no backup of jetgate.
    """
    try:
        text = (archive / _NAME).read_bytes() if archive.is_dir() else _behind(archive)
    except FileNotFoundError as error:
        raise OperatorError(f"{error.filename} is not there") from error
    except OSError as error:
        raise OperatorError(f"cannot read {archive}: {(error.strerror or '').lower()}") from error
    try:
        return msgspec.json.decode(text or b"", type=Manifest)
    except msgspec.MsgspecError as error:
        raise OperatorError(
            f"{archive} is cut short, damaged at its end, or not a backup of jetgate"
        ) from error


def _behind(archive: Path) -> bytes | None:
    """Return the manifest appended to an archive of one file; None if there is no valid one."""
    with archive.open("rb") as file:
        start = _start(file)
        if start is None:
            return None
        file.seek(start)
        found = file.read()
    text = found[: -_TRAILER.size]
    _, crc, _ = _TRAILER.unpack(found[-_TRAILER.size :])
    return text if crc32c(text) == crc else None


def _start(file: BinaryIO) -> int | None:
    """Return the offset of the manifest in an open file; None if there is none."""
    size = file.seek(0, 2)
    if size < _TRAILER.size:
        return None
    file.seek(-_TRAILER.size, 2)
    length, _, magic = _TRAILER.unpack(file.read())
    start = size - _TRAILER.size - length
    return start if magic == _MAGIC and start >= 0 else None


def digests(archive: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a backup, by name; the manifest itself is not included.

    Raises OSError if a file cannot be read.
    """
    if not archive.is_dir():
        return {"": _digest(archive)}
    names = sorted(path.name for path in archive.iterdir() if path.name != _NAME)
    return {name: _digest(archive / name) for name in names}


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    for piece in _pieces(path):
        found.update(piece)
    return found.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        start = _start(file)
        left = file.seek(0, 2) if start is None else start
        file.seek(0)
        while left and (piece := file.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece
