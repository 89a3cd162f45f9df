"""The requests and responses of the transactions API (`$JG.API.TXN.>`), jetgate's own."""

from typing import Annotated

import msgspec

from core.model.response import ErrorBody, Response
from core.model.wire import INLINE, OMIT, Duration, Int64, Uint64

_TYPE = "io.jetgate.api.v1.txn_"

HOUR = 3600 * 1_000_000_000
STAGE = "JG_STAGE_"
"""Before the name of a stream: the stream in which transactions for it are staged."""


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an app begins; `keep` is how long a staged block waits for its manifest."""

    app: str = ""
    run: str = ""
    keep: Duration = HOUR


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where blocks are staged: below `subject`, on one more token, the id of the attempt."""

    stream: str = ""
    subject: str = ""


class OpenResponse(Response, frozen=True, kw_only=True):
    """`batch` is the last that the ledger has (None: there was none)."""

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
    """A manifest; `expires` is how long the answer may take."""

    app: str = ""
    token: Int64 = 0
    batch: Int64 = 0
    attempts: tuple[StagedAttempt, ...] = ()
    expires: Duration = 0


class RefusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row at which a batch stops: in which block of which attempt, from 0 on."""

    attempt: str = ""
    seq: Uint64 = 0
    row: Int64 = 0
    subject: str = ""
    error: ErrorBody = ErrorBody()


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a batch is stored; of `promoted` rows, `duplicates` were known by their id."""

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
    """What the ledger has of one app; `changed` in nanoseconds since the Unix epoch."""

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
    """Names the app whose ledger is deleted."""

    app: str = ""


class ForgetResponse(Response, frozen=True, kw_only=True):
    type: str = _TYPE + "delete_response"
    success: bool = False
