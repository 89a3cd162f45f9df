"""The encoding of one consumer's dead letters for a peer, and the peer's answer."""

from __future__ import annotations

from typing import Protocol

import msgspec

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.rules.stream.plans.sourced import Run

PARCEL_MAX = 48 << 20
"""Bytes of an encoded run at most; a link between nodes closes above 64 MiB."""


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of storing a run of letters.

    Attributes:
        through: The number up to which letters of the run's era are stored; 0: none.
        stopped: Error of the letter after `through`; None: the run has no such letter.
        refused: Error for which no letter of the run was stored; None: the run was processed.
    """

    through: int = 0
    stopped: ErrorBody | None = None
    refused: ErrorBody | None = None


class Post(Protocol):
    """Sends letters to the peer that leads their stream."""

    def reaches(self, name: str) -> bool:
        """Return whether another node leads a stream."""
        ...

    async def send(self, name: str, run: Run) -> Taken:
        """Send a run and return its outcome. Raises ApiError if the outcome is unknown."""
        ...


class Nobody:
    """The `Post` of a node without peers."""

    def reaches(self, name: str) -> bool:
        """Return False."""
        return False

    async def send(self, name: str, run: Run) -> Taken:
        """Raise ApiError JSStreamNotFound."""
        raise api_error("JSStreamNotFound")


class _Parcel(msgspec.Struct, array_like=True):
    stream: str
    key: str
    identity: str
    through: int
    seqs: list[int]
    subjects: list[bytes]
    headers: list[bytes]
    payloads: list[bytes]


def packed(name: str, run: Run) -> bytes:
    """Encode letters for a stream as MessagePack.

    Raises ApiError JSStreamMessageExceedsMaximum above `PARCEL_MAX` bytes.
    """
    columns = run.columns
    parcel = _Parcel(
        name,
        run.key,
        run.identity,
        run.through,
        run.seqs,
        columns.subjects,
        columns.headers,
        columns.payloads,
    )
    body = msgspec.msgpack.encode(parcel)
    if len(body) > PARCEL_MAX:
        raise api_error("JSStreamMessageExceedsMaximum")
    return body


def unpacked(body: bytes) -> tuple[str, Run]:
    """Decode letters; return the name of their stream and the run."""
    parcel = msgspec.msgpack.decode(body, type=_Parcel)
    run = Run(parcel.key, parcel.identity, parcel.through, parcel.seqs, [0] * len(parcel.seqs))
    columns = run.columns
    columns.subjects, columns.headers = parcel.subjects, parcel.headers
    columns.payloads, columns.replies = parcel.payloads, [b""] * len(parcel.seqs)
    columns.has_headers = True
    columns.count_bytes()
    return parcel.stream, run


def error_of(body: ErrorBody) -> ApiError:
    """Return the error of a peer's answer."""
    return ApiError(body.code, body.err_code, body.description)
