"""The requests and responses of jetgate's transactions API (`$JG.API.TXN.>`)."""

from typing import Annotated

import msgspec

from core.model.response import ErrorBody, Response
from core.model.wire import INLINE, OMIT, Duration, Int64, Uint64
from core.units import NANOS_PER_SECOND

_TYPE = "io.jetgate.api.v1.txn_"

HOUR = 3600 * NANOS_PER_SECOND
STAGE = "JG_STAGE_"
"""Prefix of a staging stream; the name of the target stream follows."""


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of TXN.OPEN, which begins a run of an app.

    `keep` is the time that a staged block waits for its manifest, in nanoseconds.
    """

    app: str = ""
    run: str = ""
    keep: Duration = HOUR


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """The place of staged blocks: `subject`, followed by one token, the id of the attempt."""

    stream: str = ""
    subject: str = ""


class OpenResponse(Response, frozen=True, kw_only=True):
    """The response to TXN.OPEN. `batch` is the last batch of the ledger (None: there is none)."""

    type: str = _TYPE + "open_response"
    incarnation: Annotated[Int64, OMIT] = 0
    token: Annotated[Int64, OMIT] = 0
    batch: Int64 | None = None
    state: Annotated[str, OMIT] = ""
    stage: Annotated[Stage | None, OMIT] = None
    max_payload: Annotated[Int64, OMIT] = 0


class StagedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that counts: the sequences of its blocks as ranges, its rows, its checksum."""

    id: str = ""
    seqs: tuple[tuple[Int64, ...], ...] = ()
    rows: Int64 = 0
    crc: Int64 = 0


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest; `expires` is the time for the answer, in nanoseconds."""

    app: str = ""
    token: Int64 = 0
    batch: Int64 = 0
    attempts: tuple[StagedAttempt, ...] = ()
    expires: Duration = 0


class RefusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row at which a batch stops.

    `seq` is its block, `row` its index in the block, from 0 on.
    """

    attempt: str = ""
    seq: Uint64 = 0
    row: Int64 = 0
    subject: str = ""
    error: ErrorBody = ErrorBody()


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a batch.

    `duplicates` of its `promoted` rows were stored before under their id.
    """

    batch: Int64 = 0
    state: str = ""
    promoted: Int64 = 0
    rows: Int64 = 0
    duplicates: Int64 = 0
    first_seq: Int64 = 0
    last_seq: Int64 = 0
    refused: Annotated[RefusedRow | None, OMIT] = None


class CommitResponse(Response, frozen=True, kw_only=True):
    type: str = _TYPE + "commit_response"
    info: Annotated[BatchState | None, INLINE] = None


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger entry of one app; `changed` is nanoseconds since the Unix epoch."""

    app: str = ""
    run: str = ""
    token: Int64 = 0
    keep: Duration = 0
    changed: Int64 = 0
    error: Annotated[ErrorBody | None, OMIT] = None
    info: Annotated[BatchState | None, INLINE] = None


class LedgersResponse(Response, frozen=True, kw_only=True):
    type: str = _TYPE + "info_response"
    incarnation: Annotated[Int64, OMIT] = 0
    stage: Annotated[Stage | None, OMIT] = None
    apps: tuple[Ledger, ...] = ()


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of the request that deletes the ledger entry of an app."""

    app: str = ""


class ForgetResponse(Response, frozen=True, kw_only=True):
    type: str = _TYPE + "delete_response"
    success: bool = False
