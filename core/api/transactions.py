"""The handlers of API requests about transactions (`$JG.API.TXN.>`), which are batch writes.

An application, such as a Spark job, writes a numbered batch of messages to the staging stream of
its target stream, and commits it. The target stream then stores each row of the batch once. A run
is one life of the application; a newer run makes the token of the older one invalid.
"""

from core.api.call import ApiServer, Call, Nothing
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.transactions.staging import staging_stream
from core.jetstream.transactions.transactions import BatchStatus
from core.model.response import ErrorBody
from core.model.transaction_errors import transaction_error
from core.model.transactions import (
    STAGE,
    BatchState,
    CommitRequest,
    CommitResponse,
    ForgetRequest,
    ForgetResponse,
    Ledger,
    LedgersResponse,
    OpenRequest,
    OpenResponse,
    RefusedRow,
    Stage,
    StagedAttempt,
)
from core.rules.stream.config.validation import check_create
from core.rules.stream.transactions.ledger import Attempt, LedgerEntry


async def open_run(server: ApiServer, call: Call[OpenRequest]) -> OpenResponse:
    """Open a run of an application on a stream: create the staging stream, and return a token.

    The token of the application's earlier run is invalid from then on. Raises ApiError if the
    stream is a mirror or a staging stream.
    """
    runner = server.registry.stream(call.names[0])
    _check_target(runner)
    await _create_stage(server, runner)
    request = call.request
    entry = await server.transactions.open(runner, request.app, request.run, request.keep)
    standing = server.transactions.status(runner, entry)
    return OpenResponse(
        incarnation=runner.created,
        token=entry.token,
        batch=None if entry.batch is None else entry.batch.number,
        # A batch that is done leaves no work: the state is idle.
        state="idle" if standing.state == "done" else standing.state,
        stage=_stage(runner),
        max_payload=runner.services.max_payload(),
    )


def _check_target(runner: StreamRunner) -> None:
    name, config = runner.name, runner.config
    if config.mirror is not None:
        raise transaction_error("Target", why=f'stream "{name}" is a mirror: it takes no messages')
    if name.startswith(STAGE):
        raise transaction_error("Target", why=f'stream "{name}" holds staged transactions')


async def _create_stage(server: ApiServer, target: StreamRunner) -> None:
    """Create the staging stream in the lease group of its target, unless it exists.

    Raises ApiError if it cannot be created.
    """
    config = staging_stream(target.name)
    existing = server.registry.streams.get(config.name)
    if existing is None:
        checked, _ = check_create(
            config, server.registry.configs(), name=config.name, limits=server.config_limits
        )
        await server.registry.create_stream(checked, lease_group=target.lease_group)
    elif config.subjects[0] not in existing.config.subjects:
        why = f'stream "{config.name}" has no subject "{config.subjects[0]}"'
        raise transaction_error("Target", why=why)


def _stage(runner: StreamRunner) -> Stage:
    config = staging_stream(runner.name)
    return Stage(stream=config.name, subject=config.subjects[0].removesuffix(".*"))


async def commit(server: ApiServer, call: Call[CommitRequest]) -> CommitResponse:
    """Commit a batch that was published to the staging stream: the target stream stores its rows.

    Returns the state of the batch when all rows are stored or one is refused, or when the request
    expires.
    """
    runner = server.registry.stream(call.names[0])
    _check_target(runner)
    request = call.request
    standing = await server.transactions.commit(
        runner,
        request.app,
        request.token,
        request.batch,
        tuple(map(_attempt, request.attempts)),
        request.expires,
    )
    return CommitResponse(error=_error(standing), info=_state(standing))


def _attempt(staged: StagedAttempt) -> Attempt:
    if any(len(pair) != 2 for pair in staged.seqs):
        raise transaction_error("Manifest", why=f'a range of attempt "{staged.id}" is no pair')
    seqs = tuple((pair[0], pair[1]) for pair in staged.seqs)
    return Attempt(staged.id, seqs, staged.rows, staged.crc)


async def info(server: ApiServer, call: Call[Nothing]) -> LedgersResponse:
    """Return the ledger of a stream: one entry per application that commits batches to it.

    An entry has the application's latest run, and the state of its latest batch.
    """
    runner = server.registry.stream(call.names[0])
    transactions = server.transactions

    def of(entry: LedgerEntry) -> Ledger:
        standing = transactions.status(runner, entry)
        return Ledger(
            app=entry.app,
            run=entry.run,
            token=entry.token,
            keep=entry.keep,
            changed=entry.changed,
            error=_error(standing),
            info=_state(standing),
        )

    return LedgersResponse(
        incarnation=runner.created,
        stage=_stage(runner),
        apps=tuple(map(of, transactions.entries(runner))),
    )


async def forget(server: ApiServer, call: Call[ForgetRequest]) -> ForgetResponse:
    """Delete the record (ledger entry) of an application's latest run and batch on a stream."""
    runner = server.registry.stream(call.names[0])
    await server.transactions.forget(runner, call.request.app)
    return ForgetResponse(success=True)


def _error(standing: BatchStatus) -> ErrorBody | None:
    if standing.error is not None:
        return ErrorBody.of(standing.error)
    stop = standing.batch.stop if standing.batch is not None else None
    if stop is None or standing.state != "stopped":
        return None
    return ErrorBody(code=stop.code, err_code=stop.err_code, description=stop.description)


def _state(standing: BatchStatus) -> BatchState | None:
    batch, refused = standing.batch, None
    if batch is None:
        return None
    stop = batch.stop if standing.state == "stopped" else None
    if stop is not None:
        error = ErrorBody(code=stop.code, err_code=stop.err_code, description=stop.description)
        refused = RefusedRow(
            attempt=stop.attempt, seq=stop.seq, row=stop.row, subject=stop.subject, error=error
        )
    return BatchState(
        batch=batch.number,
        state=standing.state,
        promoted=batch.promoted,
        rows=batch.rows,
        duplicates=batch.duplicates,
        first_seq=batch.first_seq,
        last_seq=batch.last_seq,
        refused=refused,
    )
