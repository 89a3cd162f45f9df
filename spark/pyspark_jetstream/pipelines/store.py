"""Files of a pipeline below a directory, local or at an address such as `s3://bucket/lake`.

Arrow opens the file system. It must guarantee two things: readers see a file completely or not at
all, and a directory lists every written file. Local directories, HDFS, S3, GCS and Azure do. Atomic
renames are not needed.
"""

import contextlib
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs


class StoreError(Exception):
    """Files of a pipeline are missing or unusable; the message names the path and a remedy."""


@dataclass(frozen=True, slots=True)
class Store:
    """A directory for the files of a pipeline, local or in an object store such as S3.

    The paths in arguments are relative to the directory.

    Attributes:
        files: Arrow's file system.
        root: Path of the directory in that file system.
    """

    files: fs.FileSystem
    root: str

    @classmethod
    def at(cls, path: str) -> "Store":
        """Return the store of a local directory or an address.

        Raises StoreError if Arrow cannot open the address.
        """
        if "://" not in path:
            return cls(fs.LocalFileSystem(), str(Path(path).absolute()))
        try:
            # The URI scheme of S3 is s3a in Spark, and s3 in Arrow.
            files, root = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
        except (pa.ArrowInvalid, OSError, ImportError) as error:
            raise StoreError(f"{path}: {error}; expected an address that Arrow can open") from None
        return cls(files, root)

    @property
    def local(self) -> bool:
        """True if the store is a directory of this machine."""
        return isinstance(self.files, fs.LocalFileSystem)

    def full(self, path: str) -> str:
        """Return the path in Arrow's file system of a path relative to the store."""
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    def exists(self, path: str) -> bool:
        """Return True if the path is an existing file."""
        return bool(self.files.get_file_info(self.full(path)).type == fs.FileType.File)

    def names(self, directory: str) -> list[str]:
        """Return the names of files and directories in a directory, sorted; [] if it is missing."""
        found = self.files.get_file_info(
            fs.FileSelector(self.full(directory), allow_not_found=True)
        )
        return sorted(str(info.base_name) for info in found)

    def walk(self, directory: str = "") -> list[tuple[str, int]]:
        """Return the path and the size in bytes of each file below a directory, sorted by path."""
        selector = fs.FileSelector(self.full(directory), allow_not_found=True, recursive=True)
        found = self.files.get_file_info(selector)
        skip = len(self.root.rstrip("/")) + 1
        return sorted((i.path[skip:], i.size) for i in found if i.type == fs.FileType.File)

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError if it does not exist."""
        with self.files.open_input_stream(self.full(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, data: bytes, new: bool = False) -> None:
        """Write a file durably; readers see it completely or not at all.

        Args:
            path: Path of the file.
            data: Its content.
            new: Raise FileExistsError if the file exists. The check is atomic for a local
                directory; elsewhere two concurrent writers may both succeed.
        """
        if self.local:
            self._write_local(Path(self.full(path)), data, new)
            return
        if new and self.exists(path):
            raise FileExistsError(path)
        self.files.create_dir(self.full(path).rpartition("/")[0], recursive=True)
        with self.files.open_output_stream(self.full(path)) as stream:
            stream.write(data)

    def _write_local(self, target: Path, data: bytes, new: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            draft.write_bytes(data)
            sync(draft)
            if new:
                os.link(draft, target)
            else:
                os.replace(draft, target)
            sync(target.parent)
        finally:
            draft.unlink(missing_ok=True)

    def create(self, path: str) -> "fs.NativeFile":
        """Open a file for writing. After the caller closes it, `seal` makes it durable."""
        full = self.full(path)
        self.files.create_dir(full.rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(full)

    def seal(self, path: str) -> int:
        """Make a closed file durable; return its size in bytes."""
        if self.local:
            sync(Path(self.full(path)))
        return int(self.files.get_file_info(self.full(path)).size)

    def move(self, source: str, target: str) -> None:
        """Rename a file durably; replace an existing file of the new name.

        If the file system copies instead (S3), readers see the copy only when it is complete.
        """
        full = self.full(target)
        self.files.create_dir(full.rpartition("/")[0], recursive=True)
        self.files.move(self.full(source), full)
        if self.local:
            parent = Path(full).parent
            while True:  # the parent directories may be new too
                sync(parent)
                if parent == Path(self.root) or parent == parent.parent:
                    break
                parent = parent.parent

    def remove(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self.full(path))

    def remove_all(self, directory: str) -> None:
        """Delete a directory with its content; do nothing if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_dir(self.full(directory))


def sync(path: Path) -> None:
    """Write a local file or directory to disk with fsync."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
