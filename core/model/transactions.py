"""The requests and responses of jetgate's transactions API (`$JG.API.TXN.>`).

An *app* (such as a Spark job) writes numbered *batches* of rows (messages) to a target stream, each
exactly once. An *attempt* (task) publishes blocks, messages with several rows each, to the staging
stream of the target. The commit request then has the *manifest*: the attempts whose blocks form the
batch. A *run* is one life of the app; its token becomes invalid when a newer run begins.
"""

from typing import Annotated

import msgspec

from core.model.response import ErrorBody, Response
from core.model.wire import INLINE, OMIT, Duration, Int64, Uint64
from core.units import NANOS_PER_SECOND

_TYPE = "io.jetgate.api.v1.txn_"

HOUR = 3600 * NANOS_PER_SECOND
STAGE = "JG_STAGE_"
"""Prefix of the name of a staging stream; the name of its target stream follows."""


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of TXN.OPEN, which begins a run of an app.

    `keep` is the time for which staged blocks wait for their commit, in nanoseconds.
    """

    app: str = ""
    run: str = ""
    keep: Duration = HOUR


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """The staging stream of a target stream, and the subject for messages (blocks) in it.

    An attempt (task) publishes its blocks on `<subject>.<id of the attempt>`.
    """

    stream: str = ""
    subject: str = ""


class OpenResponse(Response, frozen=True, kw_only=True):
    """The response to TXN.OPEN, with the token of the new run.

    `batch` is the number of the app's last batch, None if there is none; `state` is the state of
    that batch, or `idle` if no batch is unfinished. `incarnation` is the creation time of the
    stream, in nanoseconds since the Unix epoch.
    """

    type: str = _TYPE + "open_response"
    incarnation: Annotated[Int64, OMIT] = 0
    token: Annotated[Int64, OMIT] = 0
    batch: Int64 | None = None
    state: Annotated[str, OMIT] = ""
    stage: Annotated[Stage | None, OMIT] = None
    max_payload: Annotated[Int64, OMIT] = 0


class StagedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The messages in the staging stream that one attempt (task) has published for a batch.

    Each message is a block of several rows. `seqs` has ranges (first, last) of their stream
    sequences, `rows` is the number of rows in all blocks, `crc` the CRC-32C of all blocks.
    """

    id: str = ""
    seqs: tuple[tuple[Int64, ...], ...] = ()
    rows: Int64 = 0
    crc: Int64 = 0


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of TXN.COMMIT: a batch number and the attempts that form the batch.

    An attempt is one task's blocks in the staging stream. `expires` is the longest wait for the
    answer, in nanoseconds; 0: 2 s, at most 5 s.
    """

    app: str = ""
    token: Int64 = 0
    batch: Int64 = 0
    attempts: tuple[StagedAttempt, ...] = ()
    expires: Duration = 0


class RefusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row (message) of a batch that the target stream refuses; the commit stops there.

    `seq` is the sequence, in the staging stream, of the block that contains the row, and `row` the
    row's index in the block, from 0.
    """

    attempt: str = ""
    seq: Uint64 = 0
    row: Int64 = 0
    subject: str = ""
    error: ErrorBody = ErrorBody()


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a batch: `promoted` of its `rows` (messages) are in the target stream.

    `duplicates` is the number of these that were there before, under the same message id.
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
    """The record (ledger entry) of one app: its latest run, and the state of its latest batch.

    `keep` is the time for which staged blocks wait for their commit, in nanoseconds. `changed` is
    the time of the last change, in nanoseconds since the Unix epoch.
    """

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
    """The body of TXN.DELETE, which deletes the record of an app's latest run and batch."""

    app: str = ""


class ForgetResponse(Response, frozen=True, kw_only=True):
    type: str = _TYPE + "delete_response"
    success: bool = False
