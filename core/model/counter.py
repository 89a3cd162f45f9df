"""The values of messages in counter streams (ADR-49).

The payload of a message has the total. A header has, for each stream that the counter sources, the
last total sourced from it.
"""

from __future__ import annotations

import msgspec

from core.goinput import folded
from core.model import codec, gojson
from core.model.gojson import JsonError, Node

Sources = dict[str, dict[str, str] | None]
"""Last sourced totals, by name of the source stream and subject in it."""

_sources = msgspec.json.Decoder(dict[str, dict[str, str]])


def read_value(payload: bytes) -> str:
    """Return the total in a payload, its JSON member `val`; empty if it is missing.

    Raises JsonError if the payload is invalid.
    """
    node = _single_value(payload)
    value = ""
    for name, member in _members(node):
        if folded(name) == "val" and member.kind != "null":
            value = _string(member)
    return value


def read_sources(text: bytes) -> Sources:
    """Decode a `Nats-Counter-Sources` header. Raises JsonError if it is invalid."""
    try:
        return {**_sources.decode(text)}
    except msgspec.MsgspecError:
        pass  # null is valid for no members, which msgspec does not accept
    streams: Sources = {}
    for stream, subjects in _members(_single_value(text)):
        streams[stream] = None
        if subjects.kind != "null":
            streams[stream] = {
                name: "" if total.kind == "null" else _string(total)
                for name, total in _members(subjects)
            }
    return streams


def write_sources(sources: Sources) -> bytes:
    """Encode a `Nats-Counter-Sources` header as JSON, with sorted names."""
    return codec.encode_plain(sources)


def _single_value(text: bytes) -> Node:
    nodes = list(gojson.parse_all(text))
    if len(nodes) != 1:
        raise JsonError("one value was expected")
    return nodes[0]


def _members(node: Node) -> list[tuple[str, Node]]:
    if node.kind not in ("object", "null"):
        raise JsonError(f"{node.kind} in place of an object")
    return node.members


def _string(node: Node) -> str:
    if node.kind != "string":
        raise JsonError(f"{node.kind} in place of a string")
    return node.text
