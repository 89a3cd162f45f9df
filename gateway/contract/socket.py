"""The channel of the WebSocket `/v1/ws` in the AsyncAPI document; its messages are frames."""

from collections.abc import Sequence
from typing import Any

from gateway.contract.frames import Frame
from gateway.contract.schemas import Schemas, named
from gateway.formats.models import FailedToken, ProblemBody
from gateway.ws.close_codes import CLOSE_CODES
from gateway.ws.codec import CODECS

Document = dict[str, Any]

_PATH = "/v1/ws"
_PACK = "application/msgpack"
_MODELS = (ProblemBody, FailedToken)
"""Structs that frames contain as plain dicts. A schema with such a title becomes a reference."""
_BINARY = {"type": "string", "format": "binary", "description": "Binary of MessagePack."}


def channel(frames: Sequence[Frame]) -> Document:
    """Return the AsyncAPI channel object: sub-protocols, close codes and frames."""
    offered = [codec.subprotocol for codec in CODECS]
    protocol = {"type": "string", "enum": offered, "description": "The encoding; without it JSON."}
    ticket = {"type": "string", "description": "A ticket of `POST /v1/tickets`, used once."}
    return {
        "address": _PATH,
        "title": "socket",
        "summary": "Publish, ask, read, follow and acknowledge in one connection",
        "messages": {each.name: {"$ref": f"#/components/messages/{each.name}"} for each in frames},
        "bindings": {
            "ws": {
                "method": "GET",
                "query": {"type": "object", "properties": {"ticket": ticket}},
                "headers": {"type": "object", "properties": {"Sec-WebSocket-Protocol": protocol}},
            }
        },
        "x-close-codes": [
            {
                "code": each.code,
                "name": each.name,
                "remedy": each.remedy.value,
                "meaning": each.description,
            }
            for each in CLOSE_CODES
        ],
    }


def operations(frames: Sequence[Frame]) -> Document:
    """Return the AsyncAPI operations of the channel: frames of the client and of the server."""
    said = {"receive": "Frames of the client", "send": "Frames of the server"}
    place = "#/channels/socket"
    return {
        f"{way}Frames": {
            "action": way,
            "summary": summary,
            "channel": {"$ref": place},
            "messages": [
                {"$ref": f"{place}/messages/{each.name}"} for each in frames if each.way == way
            ],
        }
        for way, summary in said.items()
    }


def messages(frames: Sequence[Frame]) -> Document:
    """Return the AsyncAPI message objects of the frames, by name."""
    return {each.name: _message(each) for each in frames}


def _message(frame: Frame) -> Document:
    made: Document = {
        "name": frame.kind.__struct_config__.tag,
        "summary": " ".join((frame.kind.__doc__ or "").split()),
        "payload": named(frame.name),
    }
    if frame.is_packed:
        made["contentType"] = _PACK
    if frame.examples:
        made["examples"] = [
            {"summary": each.title, "payload": each.frame} for each in frame.examples
        ]
    return made


def schemas(frames: Sequence[Frame]) -> Document:
    """Return the schemas of the frames and of the types in them, by name."""
    if not frames:
        return {}
    found = Schemas((), (*(each.kind for each in frames), *_MODELS)).components
    for each in frames:
        found[each.name] = found.pop(each.kind.__name__) | {"title": each.name}
    _refer(list(found.values()), {kind.__name__ for kind in _MODELS})
    return found


def _refer(schema: Any, models: set[str]) -> None:
    """Replace dicts that stand for a model by references to it, and base64 by binary, in place."""
    if isinstance(schema, list):
        for each in schema:
            _refer(each, models)
    elif isinstance(schema, dict):
        title = schema.get("title")
        if isinstance(title, str) and title in models and "properties" not in schema:
            reference = named(title)
            schema.clear()
            schema |= reference
        elif schema.get("contentEncoding") == "base64":
            schema.clear()
            schema |= _BINARY
        for each in schema.values():
            _refer(each, models)
