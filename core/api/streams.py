"""The handlers of API requests about streams (`$JS.API.STREAM.>`)."""

from msgspec.structs import replace

from core.api.call import LARGE_LIST, ApiServer, Call, Nothing, in_thread_if, page_offset
from core.goinput import text_of
from core.jetstream.log.subjects import subjects_matching
from core.jetstream.stream.runner import StreamRunner
from core.model import unsupported
from core.model.api_errors import api_error
from core.model.cluster import StreamAlternate
from core.model.stream import (
    LIST_PAGE,
    NAMES_PAGE,
    SUBJECTS_PAGE,
    RestoreRequest,
    SnapshotRequest,
    StreamConfigRequest,
    StreamCreateResponse,
    StreamDeleteResponse,
    StreamInfo,
    StreamInfoRequest,
    StreamInfoResponse,
    StreamListRequest,
    StreamListResponse,
    StreamNamesResponse,
    StreamPageRequest,
    StreamPurgeRequest,
    StreamPurgeResponse,
    StreamUpdateResponse,
)
from core.model.subjects import collide
from core.model.versions import show_stream
from core.rules.stream.config.validation import check_create, check_update
from core.subjects.subject import compile_reading


async def create(server: ApiServer, call: Call[StreamConfigRequest]) -> StreamCreateResponse:
    """Create a stream. Succeeds too if it exists with the same configuration.

    Raises ApiError if the configuration is invalid or the stream exists with another one.
    """
    (name,) = call.names
    config, _ = await in_thread_if(
        len(call.request.subjects) > LARGE_LIST,
        check_create,
        call.request.config(),
        server.registry.configs(),
        name=name,
        limits=server.config_limits,
        pedantic=call.request.pedantic,
    )
    runner, _ = await server.registry.create_stream(config, server.config_limits)
    found = replace(await runner.info(), domain="")  # nats-server omits it here.
    return StreamCreateResponse(info=_shown(found), did_create=True)


async def update(server: ApiServer, call: Call[StreamConfigRequest]) -> StreamUpdateResponse:
    """Replace the configuration of a stream. Raises ApiError if the update is invalid."""
    (name,) = call.names
    existing = server.registry.streams.get(name)
    consumers = existing.consumers if existing is not None else {}
    config = await in_thread_if(
        len(call.request.subjects) > LARGE_LIST,
        check_update,
        call.request.config(),
        server.registry.configs(),
        {consumer: runner.config for consumer, runner in consumers.items()},
        name=name,
        limits=server.config_limits,
        pedantic=call.request.pedantic,
    )
    runner = await server.registry.update_stream(config)
    return StreamUpdateResponse(info=_shown(await runner.info()))


async def info(server: ApiServer, call: Call[StreamInfoRequest]) -> StreamInfoResponse:
    """Return the configuration and state of a stream.

    With `subjects_filter`, also a page of its subjects with their message counts.
    """
    runner = server.registry.stream(call.names[0])
    request, offset = call.request, max(call.request.offset, 0)
    counts: dict[str, int] = {}
    if request.subjects_filter:
        pattern = request.subjects_filter.encode()
        rows = await subjects_matching(runner.log, [pattern])
        if not runner.log.machine.on_file and (only := compile_reading([pattern])) is not None:
            rows = [row for row in rows if only(row[0])]
        counts = {text_of(subject): count for subject, count, _ in rows}
    page = counts
    if offset or len(counts) > SUBJECTS_PAGE:
        page = {name: counts[name] for name in sorted(counts)[offset : offset + SUBJECTS_PAGE]}
    found = await runner.info(deleted=request.deleted_details, subjects=page, with_cluster=True)
    found = replace(found, alternates=_alternates(server, runner))
    return StreamInfoResponse(
        total=len(counts),
        offset=offset if counts else 0,
        limit=SUBJECTS_PAGE if counts else 0,
        info=_shown(found),
    )


async def names(server: ApiServer, call: Call[StreamPageRequest]) -> StreamNamesResponse:
    """Return a page of stream names; with `subject`, only of streams whose subjects overlap it."""
    found = _matching(server, call.request.subject)
    offset = page_offset(call.request.offset, len(found))
    page = found[offset : offset + NAMES_PAGE]
    return StreamNamesResponse(
        total=len(found), offset=offset, limit=NAMES_PAGE, streams=tuple(page) or None
    )


async def list_streams(server: ApiServer, call: Call[StreamListRequest]) -> StreamListResponse:
    """Return a page of stream infos; with `subject`, only of streams whose subjects overlap it.

    Streams without an answer from their leader are listed as missing.
    """
    found = _matching(server, call.request.subject)
    offset = page_offset(call.request.offset, len(found))
    page, missing = await server.node_queries.infos(found[offset : offset + LIST_PAGE])
    return StreamListResponse(
        total=len(found),
        offset=offset,
        limit=LIST_PAGE,
        streams=tuple(info for _, info in sorted(page.items())),
        missing=tuple(missing),
    )


async def delete(server: ApiServer, call: Call[Nothing]) -> StreamDeleteResponse:
    """Delete a stream, its messages and its consumers."""
    await server.registry.delete_stream(call.names[0])
    return StreamDeleteResponse(success=True)


async def purge(server: ApiServer, call: Call[StreamPurgeRequest]) -> StreamPurgeResponse:
    """Purge messages of a stream, optionally only those on a subject.

    Either all, or those below a sequence, or all but the newest `keep` ones. Raises ApiError if
    both limits are given, or the stream is sealed or denies purges.
    """
    request = call.request
    if request.seq and request.keep:
        raise api_error("JSBadRequest")
    runner = server.registry.stream(call.names[0])
    if runner.config.sealed:
        raise api_error("JSStreamSealed")
    if runner.config.deny_purge:
        raise api_error("JSStreamPurgeFailed", err="stream purge not permitted")
    purged = await runner.requests.purge(
        request.filter or None, request.seq or None, request.keep or None
    )
    return StreamPurgeResponse(success=True, purged=purged)


async def clustered(server: ApiServer, call: Call[Nothing]) -> None:
    """Refuse a request that only a cluster serves (JSClusterRequired), as nats-server does."""
    raise api_error("JSClusterRequired")


async def snapshot(server: ApiServer, call: Call[SnapshotRequest]) -> None:
    """Refuse a snapshot request: snapshots are not supported yet."""
    server.registry.stream(call.names[0])
    raise unsupported.refuse_request("snapshot")


async def restore(server: ApiServer, call: Call[RestoreRequest]) -> None:
    """Refuse a restore request: restores are not supported yet."""
    (name,) = call.names
    if call.request.config.name not in ("", name):
        raise api_error("JSStreamMismatch")
    raise unsupported.refuse_request("restore")


def _alternates(server: ApiServer, runner: StreamRunner) -> tuple[StreamAlternate, ...]:
    """Return a stream and its mirrors as alternates; empty without mirrors or without a cluster."""
    cluster = server.registry.services.cluster
    if cluster is None:
        return ()
    mirrors = [
        name
        for name, config in sorted(server.registry.configs().items())
        if (mirror := config.mirror) is not None
        and mirror.name == runner.name
        and mirror.external is None
    ]
    if not mirrors:
        return ()
    domain, name = server.domain, cluster.name
    return tuple(
        StreamAlternate(name=each, domain=domain, cluster=name) for each in (runner.name, *mirrors)
    )


def _shown(info: StreamInfo) -> StreamInfo:
    return replace(info, config=show_stream(info.config))


def _matching(server: ApiServer, subject: str) -> list[str]:
    """Return the sorted names of streams of all nodes whose subjects overlap `subject`.

    An empty subject selects all streams.
    """
    found = sorted(server.registry.configs().items())
    if not subject:
        return [name for name, _ in found]
    return [name for name, config in found if any(collide(subject, s) for s in config.subjects)]
