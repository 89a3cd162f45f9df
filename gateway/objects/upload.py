"""Upload of a request body as an object, without holding the whole body in memory.

The body is split into chunks, which are published as they arrive. Reading pauses while more than
`object_unacked_bytes_max` bytes are unacknowledged. If the body ends early or differs from its
digest, its published chunks are removed.
"""

import asyncio
import hashlib
import re
from base64 import b64decode, urlsafe_b64encode
from collections import deque
from contextlib import suppress
from typing import Any

from core.client import ClientError, MessageColumns, ReplyBatch
from core.runtime.nuid import nuid
from core.runtime.tasks import spawn
from gateway.buckets.models import ObjectInfo
from gateway.http.problems import Problem, bad_request, quoted
from gateway.messages.batch_lines import receipt_problem
from gateway.objects import object_store
from gateway.requests.call import Call

_SUCCESS = b'{"stream":'
_ALGORITHMS = {"sha-256": "sha256", "sha-512": "sha512"}
_DIGEST = re.compile(r"([a-z0-9-]+)=:([A-Za-z0-9+/=]*):")


class _Pace:
    """The time limit for each chunk of an upload: `within` seconds.

    Cleaning of a store removes chunks of uploads whose last chunk is old
    (`gateway.objects.cleanup`). With this limit, it never removes chunks of an upload in progress.
    """

    def __init__(self, within: float) -> None:
        self._within = within
        self._now = asyncio.get_running_loop().time
        self.begin()

    def begin(self) -> None:
        """Start the time limit of the next chunk."""
        self._until = self._now() + self._within

    def check(self) -> None:
        """Raise Problem 408 if the current chunk exceeds its time limit."""
        if self._now() > self._until:
            detail = f"body: a chunk took longer than {self._within:g} s"
            raise Problem(408, "slow-body", detail, headers={"Connection": "close"})


class Upload:
    """The upload of one request body as the chunks of an object; `chunk_size` in bytes.

    Attributes:
        nuid: Id of the upload, part of the subject of its chunks.
        size: Bytes of the body read so far.
        chunks: Number of published chunks.
    """

    def __init__(self, call: Call, bucket: str, chunk_size: int) -> None:
        self.nuid = nuid()
        self.size = 0
        self.chunks = 0
        self._call = call
        self._bucket = bucket
        self._subject = object_store.chunk_subject(bucket, self.nuid)
        self._chunk_size = chunk_size
        self._unacked: deque[tuple[ReplyBatch, int]] = deque()
        self._unacked_bytes = 0
        self._sha256 = hashlib.sha256()
        self._claimed = claimed_digests(call)
        self._other_hashes = {
            name: hashlib.new(_ALGORITHMS[name]) for name, _ in self._claimed if name != "sha-256"
        }

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the body, in the form of ADR-20 (`SHA-256=` and base64url)."""
        return "SHA-256=" + urlsafe_b64encode(self._sha256.digest()).decode()

    async def run(self) -> None:
        """Store the whole body.

        Raises Problem for a slow, compressed or wrong body, or if the store refuses a chunk;
        Disconnected if the client disconnects; ClientError if the server does not respond.
        Published chunks are then removed.
        """
        try:
            await self._receive()
            self._check_digests()
        except BaseException:
            await asyncio.shield(spawn(self.undo(), name="upload undone"))
            raise

    async def undo(self) -> None:
        """Remove the published chunks."""
        while self._unacked:
            # A chunk that is stored after the purge would never be removed.
            with suppress(ClientError):
                await self._unacked.popleft()[0].settled(self._timeout)
        if self.chunks:
            with suppress(Problem):
                await object_store.purge(self._call, self._bucket, self._subject)

    @property
    def _timeout(self) -> float:
        return self._call.gateway.settings.publish_timeout

    async def _receive(self) -> None:
        self._call.refuse_encoding()
        pieces: list[bytes] = []
        waiting = 0
        more = True
        within = self._call.gateway.settings.body_idle_max
        limit = self._call.gateway.settings.object_unacked_bytes_max
        pace = _Pace(self._call.gateway.settings.object_chunk_max)
        while more:
            piece, more = await self._call.chunk(within)
            if piece:
                self._digest(piece)
                pieces.append(piece)
                waiting += len(piece)
            if waiting >= self._chunk_size or (not more and waiting):
                rest = self._publish(b"".join(pieces), last=not more)
                pieces, waiting = [rest], len(rest)
                pace.begin()
            pace.check()
            while self._unacked and (self._unacked_bytes > limit or not more):
                await self._await_oldest_acks()

    def _digest(self, piece: bytes) -> None:
        self.size += len(piece)
        self._sha256.update(piece)
        for other in self._other_hashes.values():
            other.update(piece)

    def _publish(self, data: bytes, *, last: bool) -> bytes:
        """Publish all whole chunks of `data`; if `last`, also the remainder.

        Returns unpublished bytes.
        """
        size = self._chunk_size
        end = len(data) if last else len(data) - len(data) % size
        batch = MessageColumns()
        subject = self._subject.encode()
        for start in range(0, end, size):
            batch.add(subject, b"", b"", data[start : min(start + size, end)])
        if len(batch):
            self._unacked.append((self._call.gateway.js.start_many(batch), batch.nbytes))
            self._unacked_bytes += batch.nbytes
            self.chunks += len(batch)
        return data[end:]

    async def _await_oldest_acks(self) -> None:
        """Wait for the acks of the oldest publishes. Raises Problem if one of them was refused."""
        replies, size = self._unacked[0]
        await replies.settled(self._timeout)
        self._unacked.popleft()
        self._unacked_bytes -= size
        for index, ack in enumerate(replies.payloads):
            status = replies.statuses.get(index, 0)
            if ack is None or status or not ack.startswith(_SUCCESS):
                raise receipt_problem(ack, status)

    def _check_digests(self) -> None:
        for name, claimed in self._claimed:
            hashed = self._other_hashes.get(name, self._sha256).digest()
            if hashed != claimed:
                raise Problem(
                    400,
                    "digest-mismatch",
                    f"the {name} digest of the body differs from the header; nothing was stored",
                )


def claimed_digests(call: Call) -> list[tuple[str, bytes]]:
    """Return the digests in `Content-Digest` and `Repr-Digest` (RFC 9530), as (algorithm, digest).

    Raises Problem 400 for a malformed header, or one without a supported algorithm, because the
    client relies on the check.
    """
    claims: list[tuple[str, bytes]] = []
    for header in ("content-digest", "repr-digest"):
        before = len(claims)
        parts = [part for part in ",".join(call.headers.getlist(header)).split(",") if part.strip()]
        for part in parts:
            match = _DIGEST.fullmatch(part.strip())
            if match is None:
                raise bad_request(
                    "bad-header", f"{header}: {quoted(part.strip())}, expected sha-256=:<base64>:"
                )
            if match[1] in _ALGORITHMS:
                try:
                    claims.append((match[1], b64decode(match[2], validate=True)))
                except ValueError:
                    raise bad_request(
                        "bad-header", f"{header}: {quoted(match[2])} is not base64"
                    ) from None
        if parts and len(claims) == before:
            raise bad_request("bad-header", f"{header}: no digest with sha-256 or sha-512")
    return claims


async def store_object(
    call: Call, bucket: str, name: str, chunk_size: int, described: dict[str, Any]
) -> tuple[ObjectInfo, bool]:
    """Store the request body as an object. Returns its information, and True if the object is new.

    Raises Problem if a condition of the request fails or the upload fails (`Upload.run`).
    """
    old = await object_store.find(call, bucket, name)
    object_store.check(call, old)
    object_store.check_purge(call, bucket, old)
    upload = Upload(call, bucket, chunk_size)
    await upload.run()

    def make(_: ObjectInfo | None) -> ObjectInfo:
        return ObjectInfo(
            bucket=bucket,
            name=name,
            revision=0,
            nuid=upload.nuid,
            size=upload.size,
            chunks=upload.chunks,
            mtime="",
            digest=upload.digest,
            max_chunk_size=chunk_size,
            **described,
        )

    try:
        info, replaced = await object_store.change(call, bucket, name, old, make)
    except BaseException:
        await asyncio.shield(spawn(upload.undo(), name="upload undone"))
        raise
    with suppress(Problem):  # the object is stored: `:clean` removes the replaced chunks
        await object_store.drop_chunks(call, replaced)
    return info, replaced is None or replaced.deleted
