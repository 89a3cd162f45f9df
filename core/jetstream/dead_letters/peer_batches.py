"""The MessagePack encoding of dead letters for the peer that leads their stream."""

from __future__ import annotations

from typing import Protocol

import msgspec

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.rules.stream.plans.sourced import SourcedBatch

ENCODED_MAX = 48 << 20
"""Largest size of an encoded batch, in bytes. A link between nodes closes above 64 MiB."""


class StoreOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of storing a batch of one consumer's dead letters.

    Attributes:
        through: Number up to which the consumer's dead letters are stored; 0: none.
        stopped: Error of the dead letter after `through`; None: there is none.
        refused: Error of the whole batch, none of which was stored; None: no such error.
    """

    through: int = 0
    stopped: ErrorBody | None = None
    refused: ErrorBody | None = None


class PeerSender(Protocol):
    """Sends dead letters to the node that leads their dead-letter stream."""

    def reaches(self, name: str) -> bool:
        """Return whether another node leads stream `name`."""
        ...

    async def send(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Send a batch for stream `name` to its leader, and return the outcome.

        Raises ApiError if the outcome is unknown, for example after a missing answer.
        """
        ...


class NoPeers:
    """The `PeerSender` of a node without peers."""

    def reaches(self, name: str) -> bool:
        """Return False: no other node leads a stream."""
        return False

    async def send(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Raise ApiError JSStreamNotFound, since there is no peer to send to."""
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
    """Encode dead letters for stream `name` as MessagePack.

    Raises ApiError JSStreamMessageExceedsMaximum if the result is larger than `ENCODED_MAX` bytes.
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
    """Decode a batch of dead letters; return the name of their dead-letter stream and the batch."""
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
    """Return the error in a peer's answer as an ApiError."""
    return ApiError(body.code, body.err_code, body.description)
