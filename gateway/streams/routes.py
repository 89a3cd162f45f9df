"""HTTP routes of streams: management, subjects, tail feeds, purge and redrive."""

from core.model.stream import StreamConfig, StreamInfo
from gateway.feeds import handlers as feed_handlers
from gateway.formats import models
from gateway.requests.jetstream_problems import (
    ASKED,
    STREAM,
    STREAM_CREATE,
    STREAM_PUT,
    STREAM_UPDATE,
)
from gateway.requests.operation import Operation
from gateway.streams import dead_letter_handlers, handlers

_STREAM = "/v1/streams/{stream}"
_CONDITIONS = ("If-Match#tags", "If-None-Match#tags")
_INFO = ("ETag", "Cache-Control")
_CREATED = (*_INFO, "Location")
_CHANGE = ("bad-header", "precondition-failed")
_TAIL = models.TailPosition | models.Message | models.TailGap | models.ProblemBody

STREAM_ROUTES: tuple[Operation, ...] = (
    Operation(
        "listStreams",
        "GET",
        "/v1/streams",
        handlers.list_streams,
        None,
        models.StreamPage,
        query=("subject", "offset"),
        problems=(*ASKED, "bad-parameter", "bad-subject"),
    ),
    Operation(
        "createStream",
        "POST",
        "/v1/streams",
        handlers.create_stream,
        StreamConfig,
        StreamInfo,
        (201,),
        shows={201: _CREATED},
        problems=STREAM_CREATE,
    ),
    Operation(
        "listStreamNames",
        "GET",
        "/v1/stream-names",
        handlers.list_stream_names,
        None,
        models.StreamNamesPage,
        query=("subject", "offset"),
        problems=(*ASKED, "bad-parameter", "bad-subject"),
    ),
    Operation(
        "readStream",
        "GET",
        _STREAM,
        handlers.read_stream,
        None,
        StreamInfo,
        (200, 304),
        query=("deleted",),
        headers=("If-None-Match#tags",),
        shows={200: _INFO, 304: _INFO},
        problems=(*STREAM, "bad-header", "bad-parameter"),
    ),
    Operation(
        "putStream",
        "PUT",
        _STREAM,
        handlers.put_stream,
        StreamConfig,
        StreamInfo,
        (200, 201),
        headers=_CONDITIONS,
        shows={200: _INFO, 201: _CREATED},
        problems=(*STREAM_PUT, *_CHANGE),
    ),
    Operation(
        "patchStream",
        "PATCH",
        _STREAM,
        handlers.patch_stream,
        StreamConfig,
        StreamInfo,
        merges=True,
        headers=_CONDITIONS,
        shows={200: _INFO},
        problems=(*STREAM_UPDATE, *_CHANGE),
    ),
    Operation(
        "deleteStream",
        "DELETE",
        _STREAM,
        handlers.delete_stream,
        None,
        None,
        (204,),
        headers=_CONDITIONS,
        problems=(*STREAM, *_CHANGE, "unexpected-body"),
    ),
    Operation(
        "tailStream",
        "GET",
        _STREAM + "/tail",
        feed_handlers.tail_stream,
        query=("filter", "from", "last_event_id"),
        events=_TAIL,
        headers=("Last-Event-ID",),
        shows={200: ("Cache-Control", "Js-Last-Event-ID")},
        problems=(*STREAM, *ASKED, "bad-parameter", "bad-subject"),
    ),
    Operation(
        "tailSubject",
        "GET",
        "/v1/tail/{subject}",
        feed_handlers.tail_subject,
        query=("from", "last_event_id"),
        events=_TAIL,
        headers=("Last-Event-ID",),
        shows={200: ("Cache-Control", "Js-Last-Event-ID")},
        problems=(*STREAM, *ASKED, "bad-parameter", "bad-subject", "no-stream"),
    ),
    Operation(
        "redriveDeadLetters",
        "POST",
        _STREAM + ":redrive",
        dead_letter_handlers.redrive_dead_letters,
        models.RedriveRequest,
        models.RedriveResult,
        problems=(*STREAM, "bad-parameter"),
    ),
    Operation(
        "purgeStream",
        "POST",
        _STREAM + ":purge",
        handlers.purge_stream,
        models.PurgeRequest,
        models.PurgeResult,
        problems=(
            *STREAM,
            "bad-parameter",
            "bad-subject",
            "invalid-json",
            "stream-purge-failed",
            "stream-sealed",
        ),
    ),
    Operation(
        "listSubjects",
        "GET",
        _STREAM + "/subjects",
        handlers.list_subjects,
        None,
        models.Subjects,
        query=("filter", "offset"),
        shows={200: ("Cache-Control",)},
        problems=(*STREAM, "bad-parameter", "bad-subject"),
    ),
)
"""HTTP operations on streams, their configurations and their subjects."""
