"""HTTP routes of messages: publish, request, and read stored messages."""

from gateway.formats import models
from gateway.formats.message_headers import PUBLISH_HEADERS
from gateway.messages import handlers, publish_handlers, request_handlers
from gateway.requests.jetstream_problems import STREAM, WRITE, WRITE_ATOMIC
from gateway.requests.operation import RAW, Operation

_MESSAGES = "/v1/streams/{stream}/messages"
_EVENT = ("ce-id", "ce-source", "ce-specversion", "ce-type")
_PUBLISHED = (
    "Idempotency-Key",
    "If-Match#sequence",
    "If-None-Match#nothing",
    "Js-Expect",
    *PUBLISH_HEADERS,
    *_EVENT,
)
_HEADER_PROBLEMS = ("bad-header", "header-not-allowed", "bad-cloud-event")
_SUBJECT_PROBLEMS = ("bad-subject", "reserved-subject")
_LINE_PROBLEMS = ("bad-header", "bad-json", "bad-line", "header-not-allowed", *_SUBJECT_PROBLEMS)
_MESSAGE = (
    "ETag",
    "Cache-Control",
    "Js-Headers-Omitted",
    "Nats-Sequence",
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Time-Stamp",
)
_READ = {200: _MESSAGE, 304: ("ETag", "Cache-Control")}
_RECEIPT = ("ETag", "Location")

MESSAGE_ROUTES: tuple[Operation, ...] = (
    Operation(
        "publishMessage",
        "POST",
        "/v1/subjects/{subject}",
        publish_handlers.publish_one,
        RAW,
        models.PublishResult,
        (201, 200),
        headers=_PUBLISHED,
        shows={201: _RECEIPT, 200: (*_RECEIPT, "Idempotency-Replayed")},
        problems=(*_SUBJECT_PROBLEMS, *_HEADER_PROBLEMS, "bad-parameter", *WRITE),
        takes_message_headers=True,
    ),
    Operation(
        "request",
        "POST",
        "/v1/subjects/{subject}:request",
        request_handlers.request,
        RAW,
        RAW,
        query=("timeout", "replies", "stall", "until_empty"),
        lines=models.Reply,
        headers=_PUBLISHED,
        shows={200: ("Cache-Control", "Js-Headers-Omitted")},
        takes_message_headers=True,
        problems=(
            *_SUBJECT_PROBLEMS,
            *_HEADER_PROBLEMS,
            "bad-duration",
            "bad-parameter",
            "no-responders",
            "slow-reader",
        ),
    ),
    Operation(
        "publishBatch",
        "POST",
        "/v1/publish",
        publish_handlers.publish_batch,
        list[models.PublishLine],
        list[models.PublishResult | models.PublishFailure],
        takes_lines=models.PublishLine,
        lines=models.PublishResult | models.PublishFailure | models.PublishSummary,
        headers=("Prefer",),
    ),
    Operation(
        "publishAtomic",
        "POST",
        "/v1/publish:atomic",
        publish_handlers.publish_atomic,
        list[models.PublishLine],
        models.AtomicResult,
        (201,),
        takes_lines=models.PublishLine,
        shows={201: ("Location",)},
        problems=(*_LINE_PROBLEMS, *WRITE_ATOMIC, "empty-batch"),
    ),
    Operation(
        "readMessages",
        "POST",
        _MESSAGES + ":read",
        handlers.read_messages,
        models.ReadRequest,
        models.ReadResult,
        lines=models.Message | models.ReadLast,
        shows={200: ("Cache-Control",)},
        problems=(
            *STREAM,
            "bad-parameter",
            "bad-subject",
            "direct-not-allowed",
            "read-refused",
        ),
    ),
    Operation(
        "findMessage",
        "GET",
        _MESSAGES,
        handlers.find_message,
        None,
        RAW,
        (200, 304),
        query=("last_by", "next_by", "seq", "start_time"),
        json=models.Message,
        headers=("If-None-Match#tags",),
        shows=_READ,
        problems=(*STREAM, "bad-header", "bad-parameter", "bad-subject", "no-message-found"),
    ),
    Operation(
        "readMessage",
        "GET",
        _MESSAGES + "/{seq}",
        handlers.read_message,
        None,
        RAW,
        (200, 304),
        json=models.Message,
        headers=("If-None-Match#tags",),
        shows=_READ,
        problems=(*STREAM, "bad-header", "bad-parameter", "no-message-found"),
    ),
    Operation(
        "deleteMessage",
        "DELETE",
        _MESSAGES + "/{seq}",
        handlers.delete_message,
        None,
        None,
        (204,),
        query=("erase",),
        problems=(
            *STREAM,
            "bad-parameter",
            "no-message-found",
            "sequence-not-found",
            "stream-msg-delete-failed",
            "stream-sealed",
            "unexpected-body",
        ),
    ),
)
"""HTTP operations that publish messages, send requests, and read stored messages."""
