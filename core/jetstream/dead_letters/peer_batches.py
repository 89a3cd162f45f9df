"""The encoding of one consumer's dead letters for a peer, and the peer's answer."""

from __future__ import annotations

from typing import Protocol

import msgspec

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.rules.stream.plans.sourced import SourcedBatch

ENCODED_MAX = 48 << 20
"""Bytes of an encoded batch at most; a link between nodes closes above 64 MiB."""


class StoreOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of storing a batch of dead letters.

    Attributes:
        through: The number up to which dead letters of the batch's era are stored; 0: none.
        stopped: Error of the dead letter after `through`; None: there is none.
        refused: Error of the whole batch, of which nothing was stored; None: no such error.
    """

    through: int = 0
    stopped: ErrorBody | None = None
    refused: ErrorBody | None = None


class PeerSender(Protocol):
    """Sends dead letters to the peer that leads their stream."""

    def reaches(self, name: str) -> bool:
        """Return whether another node leads a stream."""
        ...

    async def send(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Send a batch and return its outcome. Raises ApiError if the outcome is unknown."""
        ...


class NoPeers:
    """The `PeerSender` of a node without peers."""

    def reaches(self, name: str) -> bool:
        """Return False."""
        return False

    async def send(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Raise ApiError JSStreamNotFound."""
        raise api_error("JSStreamNotFound")


class _EncodedBatch(msgspec.Struct, array_like=True):
    stream: str
    key: str
    identity: str
    through: int
    seqs: list[int]
    subjects: list[bytes]
    headers: list[bytes]
    payloads: list[bytes]


def encode_batch(name: str, batch: SourcedBatch) -> bytes:
    """Encode dead letters for a stream as MessagePack.

    Raises ApiError JSStreamMessageExceedsMaximum above `ENCODED_MAX` bytes.
    """
    columns = batch.columns
    encoded = _EncodedBatch(
        name,
        batch.key,
        batch.identity,
        batch.through,
        batch.seqs,
        columns.subjects,
        columns.headers,
        columns.payloads,
    )
    body = msgspec.msgpack.encode(encoded)
    if len(body) > ENCODED_MAX:
        raise api_error("JSStreamMessageExceedsMaximum")
    return body


def decode_batch(body: bytes) -> tuple[str, SourcedBatch]:
    """Decode dead letters; return the name of their stream and the batch."""
    encoded = msgspec.msgpack.decode(body, type=_EncodedBatch)
    batch = SourcedBatch(
        encoded.key, encoded.identity, encoded.through, encoded.seqs, [0] * len(encoded.seqs)
    )
    columns = batch.columns
    columns.subjects, columns.headers = encoded.subjects, encoded.headers
    columns.payloads, columns.replies = encoded.payloads, [b""] * len(encoded.seqs)
    columns.has_headers = True
    columns.count_bytes()
    return encoded.stream, batch


def error_of(body: ErrorBody) -> ApiError:
    """Return the error of a peer's answer."""
    return ApiError(body.code, body.err_code, body.description)
