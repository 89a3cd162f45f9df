"""THE TABLE of operations: name, place, who serves it, what it takes and gives.

The reference of the façade is generated from it. `{name}` in a path stands for one segment,
percent-decoded once; `:verb` at the end of a segment is part of the route.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.responses import Response

from core.model.consumer import ConsumerConfig, ConsumerInfo, ConsumerListResponse
from core.model.stream import StreamConfig, StreamInfo, StreamListResponse, StreamNamesResponse
from gateway import models
from gateway.call import Call
from gateway.handlers import consumers, messages, publish, streams, system

Handler = Callable[[Call], Awaitable[Response]]

RAW = bytes
"""A body or answer of any type, taken as it is."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. `takes` and `gives` are the types of the bodies; `statuses` those of success.

    `query`: the parameters it knows; None: any, for probes and scrapers bring their own.
    """

    id: str
    method: str
    path: str
    handler: Handler
    takes: object = None
    gives: object = None
    statuses: tuple[int, ...] = (200,)
    query: tuple[str, ...] | None = field(default=())


_STREAM = "/v1/streams/{stream}"
_CONSUMERS = "/v1/streams/{stream}/consumers"
_CONSUMER = "/v1/streams/{stream}/consumers/{consumer}"
_MESSAGES = "/v1/streams/{stream}/messages"

ROUTES: tuple[Operation, ...] = (
    Operation(
        "publishMessage",
        "POST",
        "/v1/subjects/{subject}",
        publish.publish_one,
        RAW,
        models.PublishResult,
        (201, 200),
    ),
    Operation(
        "publishBatch",
        "POST",
        "/v1/publish",
        publish.publish_batch,
        list[models.PublishLine],
        list[models.PublishResult | models.ProblemBody],
    ),
    Operation(
        "listStreams",
        "GET",
        "/v1/streams",
        streams.list_streams,
        None,
        StreamListResponse,
        query=("subject", "offset"),
    ),
    Operation(
        "createStream",
        "POST",
        "/v1/streams",
        streams.create_stream,
        StreamConfig,
        StreamInfo,
        (201,),
    ),
    Operation(
        "listStreamNames",
        "GET",
        "/v1/stream-names",
        streams.list_stream_names,
        None,
        StreamNamesResponse,
        query=("subject", "offset"),
    ),
    Operation(
        "readStream",
        "GET",
        _STREAM,
        streams.read_stream,
        None,
        StreamInfo,
        query=("subjects", "deleted", "offset"),
    ),
    Operation(
        "putStream", "PUT", _STREAM, streams.put_stream, StreamConfig, StreamInfo, (200, 201)
    ),
    Operation("patchStream", "PATCH", _STREAM, streams.patch_stream, StreamConfig, StreamInfo),
    Operation("deleteStream", "DELETE", _STREAM, streams.delete_stream, None, None, (204,)),
    Operation(
        "purgeStream",
        "POST",
        _STREAM + ":purge",
        streams.purge_stream,
        models.PurgeRequest,
        models.PurgeResult,
    ),
    Operation(
        "listConsumers",
        "GET",
        _CONSUMERS,
        consumers.list_consumers,
        None,
        ConsumerListResponse,
        query=("offset",),
    ),
    Operation(
        "createConsumer",
        "POST",
        _CONSUMERS,
        consumers.create_consumer,
        ConsumerConfig,
        ConsumerInfo,
        (201,),
    ),
    Operation("readConsumer", "GET", _CONSUMER, consumers.read_consumer, None, ConsumerInfo),
    Operation(
        "putConsumer",
        "PUT",
        _CONSUMER,
        consumers.put_consumer,
        ConsumerConfig,
        ConsumerInfo,
        (200, 201),
    ),
    Operation(
        "patchConsumer", "PATCH", _CONSUMER, consumers.patch_consumer, ConsumerConfig, ConsumerInfo
    ),
    Operation("deleteConsumer", "DELETE", _CONSUMER, consumers.delete_consumer, None, None, (204,)),
    Operation(
        "fetchMessages",
        "POST",
        _CONSUMER + ":fetch",
        consumers.fetch,
        models.FetchRequest,
        models.Messages,
        (200, 204),
    ),
    Operation(
        "ackMessages",
        "POST",
        _CONSUMER + ":ack",
        consumers.ack,
        models.AckRequest,
        models.AckResult,
    ),
    Operation(
        "nakMessages",
        "POST",
        _CONSUMER + ":nak",
        consumers.nak,
        models.NakRequest,
        models.AckResult,
    ),
    Operation(
        "termMessages",
        "POST",
        _CONSUMER + ":term",
        consumers.term,
        models.TermRequest,
        models.AckResult,
    ),
    Operation(
        "progressMessages",
        "POST",
        _CONSUMER + ":progress",
        consumers.progress,
        models.AckRequest,
        models.AckResult,
    ),
    Operation(
        "findMessage",
        "GET",
        _MESSAGES,
        messages.find_message,
        None,
        models.Message,
        (200, 304),
        query=("last_by", "next_by", "seq", "start_time"),
    ),
    Operation(
        "readMessage",
        "GET",
        _MESSAGES + "/{seq}",
        messages.read_message,
        None,
        models.Message,
        (200, 304),
    ),
    Operation(
        "deleteMessage",
        "DELETE",
        _MESSAGES + "/{seq}",
        messages.delete_message,
        None,
        None,
        (204,),
        query=("erase",),
    ),
    Operation("healthz", "GET", "/healthz", system.healthz, None, models.Health, query=None),
    Operation("readyz", "GET", "/readyz", system.readyz, None, models.Health, query=None),
    Operation("metrics", "GET", "/metrics", system.metrics, None, RAW, query=None),
)
