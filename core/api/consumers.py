"""The handlers of API requests about consumers (`$JS.API.CONSUMER.>`)."""

from msgspec.structs import replace

from core.api.call import ApiServer, Call, Nothing, page_offset
from core.jetstream.consumer.runner import ConsumerRunner
from core.jetstream.stream.runner import StreamRunner
from core.model.api_errors import api_error
from core.model.consumer import (
    STREAM_IDENTITY,
    ConsumerCreateResponse,
    ConsumerDeleteResponse,
    ConsumerInfo,
    ConsumerInfoResponse,
    ConsumerListResponse,
    ConsumerNamesResponse,
    ConsumerPageRequest,
    ConsumerPauseRequest,
    ConsumerPauseResponse,
    ConsumerResetRequest,
    ConsumerResetResponse,
    ConsumerUnpinRequest,
    ConsumerUnpinResponse,
    CreateConsumerRequest,
)
from core.model.gotime import UnwritableTime, format_time, in_utc
from core.model.stream import LIST_PAGE, NAMES_PAGE
from core.model.versions import show_consumer
from core.model.wire import ZERO_TIME
from core.protocol import headers as header_block
from core.rules.consumer.config.checks import check_group_name
from core.rules.consumer.config.validation import named_request


async def create(server: ApiServer, call: Call[CreateConsumerRequest]) -> ConsumerCreateResponse:
    """Create or update a consumer.

    Serves the subjects `CONSUMER.CREATE.<stream>`, `CONSUMER.CREATE.<stream>.<consumer>` and
    `CONSUMER.CREATE.<stream>.<consumer>.<filter>`.
    """
    stream, *rest = call.names
    name = rest[0] if rest else ""
    return await _create(server, call, stream, name, ".".join(rest[1:]), durable=False)


async def create_durable(
    server: ApiServer, call: Call[CreateConsumerRequest]
) -> ConsumerCreateResponse:
    """Create or update a durable consumer.

    Serves the legacy subject `CONSUMER.DURABLE.CREATE.<stream>.<consumer>`.
    """
    stream, name = call.names
    return await _create(server, call, stream, name, "", durable=True)


async def _create(
    server: ApiServer,
    call: Call[CreateConsumerRequest],
    stream: str,
    name: str,
    filter_subject: str,
    *,
    durable: bool,
) -> ConsumerCreateResponse:
    request = call.request
    config = named_request(request, stream, name, filter_subject, durable, server.config_limits)
    runner = server.registry.stream(stream)
    copies = config.direct or config.sourcing
    if copies:
        _check_identity(runner, call.headers)
    consumer = await runner.consumers.create(
        config, request.action, limits=server.config_limits, pedantic=request.pedantic
    )
    identity = runner.identity if copies else ""
    return ConsumerCreateResponse(info=_shown(consumer.info()), identity=identity)


def _check_identity(runner: StreamRunner, headers: bytes) -> None:
    """Check that a mirror or source, which creates a consumer, has copied this very stream.

    Its request has the header `Nats-Stream-Identity`. Raises ApiError if the value is that of an
    earlier, deleted stream of the same name.
    """
    known = header_block.find(headers, STREAM_IDENTITY) if headers else None
    if known and known != runner.identity.encode():
        raise api_error("JSConsumerStreamIdentityMismatch", msg=runner.identity)


async def names(server: ApiServer, call: Call[ConsumerPageRequest]) -> ConsumerNamesResponse:
    """Return a page of the names of a stream's consumers."""
    consumers = server.registry.stream(call.names[0]).consumers
    found = sorted(name for name, runner in consumers.items() if not runner.hidden)
    offset = page_offset(call.request.offset, len(found))
    page = tuple(found[offset : offset + NAMES_PAGE])
    return ConsumerNamesResponse(total=len(found), offset=offset, limit=NAMES_PAGE, consumers=page)


async def list_consumers(
    server: ApiServer, call: Call[ConsumerPageRequest]
) -> ConsumerListResponse:
    """Return a page of the infos (configuration and state) of a stream's consumers."""
    consumers = server.registry.stream(call.names[0]).consumers
    found = [runner for _, runner in sorted(consumers.items()) if not runner.hidden]
    offset = page_offset(call.request.offset, len(found))
    page = tuple(consumer.info() for consumer in found[offset : offset + LIST_PAGE])
    return ConsumerListResponse(total=len(found), offset=offset, limit=LIST_PAGE, consumers=page)


async def info(server: ApiServer, call: Call[Nothing]) -> ConsumerInfoResponse:
    """Return a consumer's configuration and state."""
    return ConsumerInfoResponse(info=_shown(_consumer(server, call.names).info()))


async def delete(server: ApiServer, call: Call[Nothing]) -> ConsumerDeleteResponse:
    """Delete a consumer. Raises ApiError JSConsumerNotFound or JSStreamNotFound."""
    stream, name = call.names
    await server.registry.stream(stream).consumers.delete(name)
    return ConsumerDeleteResponse(success=True)


async def pause(server: ApiServer, call: Call[ConsumerPauseRequest]) -> ConsumerPauseResponse:
    """Pause a consumer until the requested time; a time in the past, or none, resumes it."""
    stream, name = call.names
    asked = call.request.pause_until
    until = ZERO_TIME if asked is None else in_utc(asked)
    try:
        format_time(until)
    except UnwritableTime as error:
        text = f"json: error calling MarshalJSON for type *time.Time: {error}"
        raise api_error("JSConsumerStoreFailed", err=text) from None
    runner = await server.registry.stream(stream).consumers.pause(name, until)
    left = max(until - server.clock.now(), 0) if runner.paused_until else 0
    return ConsumerPauseResponse(
        paused=runner.paused_until > 0, pause_until=until, pause_remaining=left
    )


async def unpin(server: ApiServer, call: Call[ConsumerUnpinRequest]) -> ConsumerUnpinResponse:
    """Unpin the client that is pinned in a priority group of a consumer."""
    group = call.request.group
    if not group:
        raise api_error("JSInvalidJSON", err="consumer group not specified")
    check_group_name(group)
    consumer = _consumer(server, call.names)
    if group not in consumer.config.priority_groups:
        raise api_error("JSConsumerInvalidPriorityGroup")
    consumer.machine.unpin(group)
    consumer.wake()
    return ConsumerUnpinResponse()


def exists(server: ApiServer, names: tuple[str, ...]) -> bool:
    """Return whether the consumer `names` (stream, consumer) exists.

    If not, the request to reset it (CONSUMER.RESET) gets no answer, as with nats-server.
    """
    stream, name = names
    runner = server.registry.streams.get(stream)
    return runner is not None and name in runner.consumers


async def reset(server: ApiServer, call: Call[ConsumerResetRequest]) -> ConsumerResetResponse:
    """Reset a consumer's position to a stream sequence; 0: the one after its ack floor."""
    stream, name = call.names
    runner = server.registry.stream(stream)
    copies = bool(call.headers) and header_block.find(call.headers, STREAM_IDENTITY) is not None
    shown, seq = await runner.consumers.reset(name, call.request.seq)
    identity = runner.identity if copies else ""
    return ConsumerResetResponse(info=_shown(shown), reset_seq=seq, identity=identity)


def _consumer(server: ApiServer, names: tuple[str, ...]) -> ConsumerRunner:
    stream, name = names
    consumer = server.registry.stream(stream).consumers.get(name)
    if consumer is None:
        raise api_error("JSConsumerNotFound")
    return consumer


def _shown(info: ConsumerInfo) -> ConsumerInfo:
    return replace(info, config=show_consumer(info.config))
