"""Object stores, compatible with those of official NATS clients (ADR-20); objects of any size."""

import asyncio
import hashlib
import json
import re
from base64 import b64encode, urlsafe_b64decode
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Self

from jetgate_client.errors import (
    BadRequest,
    Conflict,
    ConnectionLost,
    JetgateError,
    NotFound,
    Problem,
    Unauthorized,
    is_passing,
)
from jetgate_client.events import follow
from jetgate_client.retrying import Backoff
from jetgate_client.transport import Answer, Transport, path_of, revision_of

Content = bytes | str | BinaryIO | AsyncIterable[bytes]
"""The content of an object: bytes, text in UTF-8, an open file, or an async iterable of bytes."""

_PIECE = 256 * 1024
_SILENCE_S = 30.0
_SHA256 = re.compile("sha-256=:([^:]*):")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The information about an object.

    Attributes:
        revision: Revision of this information.
        size: Size of the object, in bytes.
        chunks: Number of messages that store the object.
        mtime: Time of the last change, in RFC 3339.
        digest: `SHA-256=` and base64url; "": unknown.
        link: Target of a link: `bucket`, and `name` unless the target is the whole bucket.
        deleted: True if the object was deleted.
    """

    bucket: str
    name: str
    revision: int
    size: int
    chunks: int
    mtime: str
    digest: str = ""
    description: str = ""
    headers: Mapping[str, list[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    link: Mapping[str, str] | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An item of a watch: a change of an object, or a report about the watch itself.

    `event` is `put` or `delete` of the object in `info`, or `ready` or `reset`, which have the same
    meaning as in `jetgate_client.kv.Change`.
    """

    event: str
    position: str
    info: ObjectInfo | None = None


class DigestMismatch(JetgateError):
    """The received or stored bytes differ from the sent ones."""


class DigestMissing(JetgateError):
    """A whole object cannot be verified, because the response has no SHA-256.

    Either the object was stored without one, or a proxy removed the header `Repr-Digest`.
    """


class Download:
    """A download of an object, read with `async with` and `async for`.

    After a lost connection it resumes at the same byte. At the end of a whole object its digest is
    verified. Raises NotFound if the object does not exist, DigestMismatch for wrong bytes,
    DigestMissing if a whole object has no digest and the caller has not allowed that (`unchecked`),
    Conflict if the object was replaced meanwhile.

    Attributes:
        size: Size of the requested part, in bytes.
        revision: Revision of the object.
        headers: Headers of the response, such as `content-type`, and the object's own,
            `nats-h-<name>`.
        is_checked: True if the SHA-256 is verified at the end: for a whole object with a known
            digest.
    """

    def __init__(
        self, transport: Transport, path: str, begin: int, end: int | None, *, unchecked: bool
    ) -> None:
        self.size = 0
        self.revision = 0
        self.is_checked = False
        self._unchecked = unchecked
        self._told = ""
        self.headers: Mapping[str, str] = {}
        self._transport = transport
        self._path = path
        self._begin = begin
        self._end = end
        self._etag = ""
        self._pieces = transport.tracked(self._run())

    async def __aenter__(self) -> Self:
        await anext(self._pieces)  # the first piece is empty and means that the answer has begun
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pieces.aclose()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def _run(self) -> AsyncGenerator[bytes, None]:
        backoff = Backoff(self._transport.retry)
        digest = hashlib.sha256()
        at = self._begin
        while True:
            try:
                asked = self._transport.stream(
                    "GET", self._path, silence=_SILENCE_S, headers=self._asked(at)
                )
                async with asked as answer:
                    if not self._etag:
                        self._see(answer)
                        yield b""
                    elif answer.status != 206:
                        raise _changed(self._path)
                    async for piece in answer.pieces():
                        backoff.reset()
                        at += len(piece)
                        digest.update(piece)
                        yield piece
                if at - self._begin >= self.size:
                    break
                raise ConnectionLost("the object ended too early")
            except JetgateError as error:
                if not self._etag or not is_passing(error):
                    raise
                await backoff.wait(error)
        if self.is_checked and self._told != b64encode(digest.digest()).decode():
            raise DigestMismatch(f"{self._path}: sha-256 {self._told} was told")

    def _asked(self, at: int) -> dict[str, str]:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        if at or self._end is not None:
            headers["Range"] = f"bytes={at}-{'' if self._end is None else self._end - 1}"
        if self._etag:
            headers["If-Range"] = self._etag
        return headers

    def _see(self, answer: Answer) -> None:
        self.headers = answer.headers
        revision = revision_of(answer.headers, self._path)
        length = answer.headers.get("Content-Length", "")
        if not length:
            raise JetgateError(f"{self._path}: no Content-Length came, so its end is not known")
        if not self._begin and self._end is None:
            told = _SHA256.search(answer.headers.get("Repr-Digest", ""))
            if told is None and not self._unchecked:
                raise DigestMissing(f"{self._path}: no Repr-Digest came, so it cannot be checked")
            self.is_checked = told is not None
            self._told = told[1] if told else ""
        self._etag = answer.headers["ETag"]
        self.revision = revision
        self.size = int(length)


def _changed(path: str) -> Conflict:
    detail = f"{path}: replaced while it was read"
    return Conflict({"status": 409, "type": "object-changed", "detail": detail})


class ObjectStore:
    """An object store of the server."""

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport = transport

    async def put(
        self,
        name: str,
        content: Content,
        *,
        media_type: str = "",
        description: str = "",
        headers: Mapping[str, str] | None = None,
        chunk_size: int = 0,
        revision: int | None = None,
    ) -> ObjectInfo:
        """Store an object, in place of an existing one; return its information.

        The server verifies the SHA-256 of bytes and text. If no answer arrives, bytes and text are
        sent again; files and iterables, which can be read only once, are not. With `revision`, the
        object is stored only if that is the last revision (0: none), and sent once.

        Raises Problem if the server refuses, DigestMismatch for wrong bytes, ConnectionLost or
        OutcomeUnknown without an answer.
        """
        sent = {f"Nats-H-{each}": value for each, value in (headers or {}).items()}
        sent["Content-Type"] = media_type or "application/octet-stream"
        if description:
            sent["Js-Description"] = description
        if chunk_size:
            sent["Js-Chunk-Size"] = str(chunk_size)
        if revision is not None:
            sent |= {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}
        path = path_of("objects", self.name, name)
        if not isinstance(content, bytes | str):
            return await self._put_pieces(path, content, sent)
        whole = content if isinstance(content, bytes) else content.encode()
        sent["Repr-Digest"] = _repr_digest(hashlib.sha256(whole).digest())
        try:
            if revision is None:
                answer = await self._transport.repeat(
                    "PUT", path, what=name, before=self._ask, content=whole, headers=sent
                )
            else:
                answer = await self._transport.send("PUT", path, content=whole, headers=sent)
        except BadRequest as refused:
            if refused.kind != "digest-mismatch":
                raise
            raise DigestMismatch(f"{path}: {refused.detail}") from refused
        return _info(answer.json())

    async def _ask(self, attempt: int) -> None:
        """Check before a retry (`attempt` over 0) that the store exists.

        The lost answer may have been the refusal of a missing store or of the credentials. Raises
        Problem if the request for the store is refused for such a reason.
        """
        if not attempt:
            return
        try:
            await self._transport.send("GET", path_of("objects", self.name))
        except (NotFound, Unauthorized):
            raise
        except Problem as refused:
            # A user may be permitted to put objects, but not to read the store's description.
            if is_passing(refused):
                raise

    async def _put_pieces(
        self, path: str, content: BinaryIO | AsyncIterable[bytes], headers: dict[str, str]
    ) -> ObjectInfo:
        digest = hashlib.sha256()

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in _pieces_of(content):
                digest.update(piece)
                yield piece

        answer = await self._transport.send("PUT", path, content=pieces(), headers=headers)
        info = _info(answer.json())
        if urlsafe_b64decode(info.digest.removeprefix("SHA-256=")) != digest.digest():
            raise DigestMismatch(f"{path}: stored with {info.digest}")
        return info

    def open(
        self, name: str, *, begin: int = 0, end: int | None = None, unchecked: bool = False
    ) -> Download:
        """Return a download of an object, or of its bytes from `begin` to `end` - 1 (None: to its
        end).

        `unchecked` allows a whole object without a digest.
        """
        path = path_of("objects", self.name, name)
        return Download(self._transport, path, begin, end, unchecked=unchecked)

    async def get(
        self, name: str, *, begin: int = 0, end: int | None = None, unchecked: bool = False
    ) -> bytes:
        """Return the content of an object, or its bytes from `begin` to `end` - 1 (None: to its
        end).

        Raises the errors of `Download`. `unchecked` allows a whole object without a digest.
        """
        async with self.open(name, begin=begin, end=end, unchecked=unchecked) as download:
            return b"".join([piece async for piece in download])

    async def info(self, name: str) -> ObjectInfo | None:
        """Return the information about an object or a link; None if it does not exist."""
        try:
            answer = await self._transport.send("GET", self._at(name, "info"))
        except NotFound as problem:
            if problem.kind == "object-not-found":
                return None
            raise
        return _info(answer.json())

    async def update(self, name: str, /, **members: Any) -> ObjectInfo:
        """Change `name`, `description`, `headers` or `metadata` of an object; None removes a
        member.

        Raises NotFound if the object does not exist.
        """
        answer = await self._transport.send("PATCH", self._at(name), json=members)
        return _info(answer.json())

    async def delete(self, name: str) -> None:
        """Delete an object. Raises NotFound if it does not exist."""
        await self._transport.send("DELETE", self._at(name))

    async def link(self, name: str, to: str, *, bucket: str = "") -> ObjectInfo:
        """Create a link `name` to the object `to` of this store, or of the store `bucket`.

        Raises NotFound if the target does not exist, Conflict if `name` is an object.
        """
        body = {"bucket": bucket or self.name, "name": to}
        answer = await self._transport.send("POST", self._at(name, "link"), json=body)
        return _info(answer.json())

    async def list(self, *, deleted: bool = False) -> list[ObjectInfo]:
        """Return the current objects; with `deleted`, the deleted ones too."""
        query = {"deleted": "true"} if deleted else {}
        path = path_of("objects", self.name, verb="list")
        answer = await self._transport.send("GET", path, params=query)
        return [_info(each) for each in answer.json()["objects"]]

    async def watch(
        self, *, updates_only: bool = False, ignore_deletes: bool = False
    ) -> AsyncIterator[ObjectChange]:
        """Yield the current objects, then changes; resumes after lost connections and restarts.

        `updates_only`: omit current objects. `ignore_deletes`: omit deletions.
        """
        options = {"updates_only": updates_only, "ignore_deletes": ignore_deletes}
        query = {name: "true" for name, on in options.items() if on}
        path = path_of("objects", self.name, verb="watch")
        is_ready = False
        async for event in follow(self._transport, path, query, resumes=True):
            if event is None:
                continue
            fields = json.loads(event.data)
            if event.event == "open":
                if fields.get("recovered") is False:
                    is_ready = False
                    yield ObjectChange("reset", event.id)
            elif event.event == "ready":
                if not is_ready:
                    is_ready = True
                    yield ObjectChange("ready", event.id)
            else:
                yield ObjectChange(event.event, event.id, _info(fields))

    def _at(self, name: str, verb: str = "") -> str:
        return path_of("objects", self.name, name, verb=verb)


async def _pieces_of(content: BinaryIO | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
        return
    while piece := await asyncio.to_thread(content.read, _PIECE):
        yield piece


def _repr_digest(sha256: bytes) -> str:
    return f"sha-256=:{b64encode(sha256).decode()}:"


def _info(fields: Mapping[str, Any]) -> ObjectInfo:
    known = {name: fields[name] for name in ObjectInfo.__slots__ if name in fields}
    return ObjectInfo(**known)
