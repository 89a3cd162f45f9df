"""Generation of the AsyncAPI 3.0 document: server-sent events and WebSocket frames.

The document describes the server's side. An operation with the action `send` is an event of a feed
or a frame from the server; `receive` is a frame from the client.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from gateway.contract import socket
from gateway.contract.frames import Frame
from gateway.contract.parameters import PATH, QUERY, REQUEST_HEADERS
from gateway.contract.schemas import Schemas, named, reached
from gateway.requests.operation import Operation

Document = dict[str, Any]

_EVENTS = "text/event-stream"


def document(
    operations: Iterable[Operation], version: str, frames: Iterable[Frame] = ()
) -> Document:
    """Generate the AsyncAPI document for operations and WebSocket frames.

    Args:
        operations: Rows of the route table; only those with `events` become channels.
        version: The version of jetgate.
        frames: Frames of `/v1/ws`. If empty, the document has no channel `socket`.
    """
    feeds = [row for row in operations if row.events is not None]
    socket_frames = tuple(frames)
    kinds = [kind for row in feeds for kind in _events(row)]
    schemas = Schemas((), kinds).components | socket.schemas(socket_frames)
    channels = {row.id: _feed(row) for row in feeds}
    acts = {row.id: _act(row) for row in feeds}
    messages = {kind.__name__: _message(kind) for kind in kinds}
    if socket_frames:
        channels["socket"] = socket.channel(socket_frames)
        acts |= socket.operations(socket_frames)
        messages |= socket.messages(socket_frames)
    parts = [*channels.values(), *messages.values()]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "jetgate",
            "version": version,
            "description": "Feeds of JetStream over HTTP.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"here": {"host": "localhost:8080", "protocol": "http"}},
        "channels": channels,
        "operations": acts,
        "components": {"schemas": reached(schemas, parts), "messages": messages},
    }


def _events(row: Operation) -> Iterator[type[msgspec.Struct]]:
    yield from get_args(row.events) or (row.events,)


def _summary(row: Operation) -> str:
    return " ".join((row.handler.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


def _feed(row: Operation) -> Document:
    names = [part[1 : part.index("}")] for part in row.path.split("/") if part.startswith("{")]
    found: Document = {
        "address": row.path,
        "title": row.id,
        "summary": _summary(row),
        "messages": {kind.__name__: _to_message(kind) for kind in _events(row)},
        "x-request": _request(row),
    }
    if names:
        found["parameters"] = {name: {"description": PATH[name][1]} for name in names}
    return found


def _request(row: Operation) -> Document:
    """Describe the request that opens a feed: method, `Accept`, query and headers.

    In the response, the data of each event is a message and its `event` field is the type.
    """
    query = {name: _described(*QUERY[name]) for name in row.query or ()}
    headers = {name.partition("#")[0]: _described(*REQUEST_HEADERS[name]) for name in row.headers}
    return {
        "method": row.method,
        "accept": _EVENTS,
        "query": {"type": "object", "properties": query},
        "headers": {"type": "object", "properties": headers},
    }


def _described(schema: Document, text: str) -> Document:
    return {**schema, "description": text}


def _act(row: Operation) -> Document:
    channel = {"$ref": f"#/channels/{row.id}"}
    return {"action": "send", "summary": _summary(row), "channel": channel}


def _to_message(kind: type) -> Document:
    return {"$ref": f"#/components/messages/{kind.__name__}"}


def _message(kind: type) -> Document:
    text = " ".join((kind.__doc__ or "").split())
    return {"name": kind.__name__, "summary": text, "payload": named(kind.__name__)}
