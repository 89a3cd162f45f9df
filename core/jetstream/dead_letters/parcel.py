"""Some dead letters of one consumer on their way to another node, and what that answers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.response import ErrorBody
from core.stream.copying import Run

PARCEL_MAX = 48 << 20
"""A link ends with a message of more than 64 MiB."""


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of some letters.

    Attributes:
        through: the number up to which those of this era are stored; 0: none is.
        stopped: why the next one is not stored; None: it was not among them.
        refused: why nothing could be tried.
    """

    through: int = 0
    stopped: ErrorBody | None = None
    refused: ErrorBody | None = None


class Post(Protocol):
    """Brings letters to the node that leads their stream."""

    def reaches(self, name: str) -> bool:
        """Whether another node leads a stream."""
        ...

    async def send(self, name: str, run: Run) -> Taken:
        """Have letters stored. Raises ApiError: nobody says whether they are."""
        ...


class Nobody:
    """Stands for other nodes where there are none."""

    def reaches(self, name: str) -> bool:
        """Return that no other node leads a stream."""
        return False

    async def send(self, name: str, run: Run) -> Taken:
        """Refuse."""
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
    """Return letters for a stream as they are sent. Raises ApiError: one is too large for that."""
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
    """Return the name of a stream, and the letters for it."""
    parcel = msgspec.msgpack.decode(body, type=_Parcel)
    run = Run(parcel.key, parcel.identity, parcel.through, parcel.seqs, [0] * len(parcel.seqs))
    columns = run.columns
    columns.subjects, columns.headers = parcel.subjects, parcel.headers
    columns.payloads, columns.replies = parcel.payloads, [b""] * len(parcel.seqs)
    columns.has_headers = True
    columns.count_bytes()
    return parcel.stream, run


def error_of(body: ErrorBody) -> ApiError:
    """Return the error that a node has answered."""
    return ApiError(body.code, body.err_code, body.description)
