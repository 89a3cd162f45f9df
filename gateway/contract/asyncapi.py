"""The AsyncAPI 3.0 document: what is pushed to callers, from the route table and a table of frames.

It is written from the side of the server: what it `send`s are the events of its feeds and the
frames that it gives, what it `receive`s the frames that it takes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from gateway.contract.parameters import PATH, QUERY, REQUEST_HEADERS
from gateway.contract.schemas import Schemas, named, reached
from gateway.operation import Operation

Document = dict[str, Any]

_EVENTS = "text/event-stream"
_WEBSOCKET = "/v1/ws"


@dataclass(frozen=True, slots=True)
class Frame:
    """One kind of frame of a WebSocket connection.

    Attributes:
        kind: its struct; the name of that is the name of the message, its docstring the summary.
        way: `receive`: the server takes it; `send`: the server gives it.
    """

    kind: type[msgspec.Struct]
    way: Literal["send", "receive"]


def document(
    operations: Iterable[Operation], version: str, frames: Iterable[Frame] = ()
) -> Document:
    """The document: the feeds of server-sent events among these operations, and these frames."""
    feeds = [row for row in operations if row.events is not None]
    socket = tuple(frames)
    kinds = [kind for row in feeds for kind in _events(row)]
    schemas = Schemas((), (*kinds, *(frame.kind for frame in socket)))
    channels = {row.id: _feed(row) for row in feeds}
    acts = {row.id: _act("send", row.id, _summary(row)) for row in feeds}
    if socket:
        channels["socket"] = _socket(socket)
        for way in ("receive", "send"):
            acts[f"{way}Frames"] = _frames_act(way, socket)
    messages = {kind.__name__: _message(kind) for kind in kinds}
    messages |= {frame.kind.__name__: _message(frame.kind) for frame in socket}
    parts = [*channels.values(), *messages.values()]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "jetgate",
            "version": version,
            "description": "What JetStream pushes over HTTP.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"here": {"host": "localhost:8080", "protocol": "http"}},
        "channels": channels,
        "operations": acts,
        "components": {"schemas": reached(schemas.components, parts), "messages": messages},
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
    """How a feed is asked for; the data of each event is a message, `event` its kind."""
    query = {name: _said(*QUERY[name]) for name in row.query or ()}
    headers = {name.partition("#")[0]: _said(*REQUEST_HEADERS[name]) for name in row.headers}
    return {
        "method": row.method,
        "accept": _EVENTS,
        "query": {"type": "object", "properties": query},
        "headers": {"type": "object", "properties": headers},
    }


def _said(schema: Document, text: str) -> Document:
    return {**schema, "description": text}


def _socket(frames: Iterable[Frame]) -> Document:
    return {
        "address": _WEBSOCKET,
        "title": "socket",
        "messages": {frame.kind.__name__: _to_message(frame.kind) for frame in frames},
        "bindings": {"ws": {"method": "GET"}},
    }


def _act(way: str, channel: str, summary: str) -> Document:
    return {"action": way, "summary": summary, "channel": {"$ref": f"#/channels/{channel}"}}


def _frames_act(way: str, frames: Iterable[Frame]) -> Document:
    names = [frame.kind.__name__ for frame in frames if frame.way == way]
    act = _act(way, "socket", "What the server gives" if way == "send" else "What it takes")
    return act | {"messages": [{"$ref": f"#/channels/socket/messages/{name}"} for name in names]}


def _to_message(kind: type) -> Document:
    return {"$ref": f"#/components/messages/{kind.__name__}"}


def _message(kind: type) -> Document:
    text = " ".join((kind.__doc__ or "").split())
    return {"name": kind.__name__, "summary": text, "payload": named(kind.__name__)}
