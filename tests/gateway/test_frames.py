"""The frames of `/v1/ws` in the AsyncAPI document are those that the server takes and gives.

Whatever the tests of this folder read from a socket is held against the document, too
(`sockets.py`).
"""

# Subject: HTTP, HTTP contract

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.contract.frames import recorded
from tests.gateway import frame_contract, frame_examples
from tests.gateway.examples import server, shape
from tests.gateway.frame_contract import Schema, document, is_packed, names
from tests.gateway.serving import GatewayServer
from tests.gateway.sockets import JSON, PACK, Socket

_REF = "#/components/schemas/"
_DIGITS = "1795401449110121737"


def test_every_frame_is_shown_by_an_example_of_it() -> None:
    messages = document()["components"]["messages"]

    for way in ("receive", "send"):
        for name in names(way):
            for example in messages[name]["examples"]:
                frame_contract.check(way, example["payload"], packed=is_packed(name))


def test_the_examples_are_frames_of_a_server() -> None:
    with server() as web:
        found = list(frame_examples.answered(web))

    assert [each.name for each in found] == [each.name for each in recorded()]
    for example, kept in zip(found, recorded(), strict=True):
        assert shape(example.frame) == shape(kept.frame), kept.title


def value(schema: Schema, *, most: bool) -> Any:
    """Something that a schema allows: as little as it can be, or as much."""
    if "$ref" in schema:
        return value(frame_contract.schema(schema["$ref"].removeprefix(_REF)), most=most)
    if "anyOf" in schema:
        return value(schema["anyOf"][0 if most else -1], most=most)
    if "enum" in schema:
        return schema["enum"][-1 if most else 0]
    match schema.get("type"):
        case "integer":
            top = schema.get("maximum", schema.get("exclusiveMaximum", 2**31) - 1)
            return top if most else schema.get("minimum", 0)
        case "string" if schema.get("format") == "binary":
            return b"\x00\xff" if most else b""
        case "string":
            text = _DIGITS if "pattern" in schema else "x" * schema.get("maxLength", 9)
            return text if most or "pattern" in schema else ""
        case "boolean":
            return most
        case "null":
            return None
        case "array":
            return [value(schema["items"], most=most)]
        case "object" if "properties" not in schema:
            return {"a": value(schema["additionalProperties"], most=most)} if most else {}
        case "object":
            needed = schema["properties"] if most else schema.get("required", ())
            return {name: value(schema["properties"][name], most=most) for name in needed}
    return {"any": ["value"]}


def wrong(name: str, frame: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a frame may not be: with another member, without one that is needed, of other types and
    beyond each bound."""
    schema = frame_contract.schema(name)
    yield frame | {"more": 1}
    for member in schema["required"]:
        yield {each: frame[each] for each in frame if each != member}
    for member, said in schema["properties"].items():
        if said == {}:
            continue
        yield frame | {member: [{"neither": "nor"}]}
        if "maximum" in said or "exclusiveMaximum" in said:
            yield frame | {member: value(said, most=True) + 1}
        if said.get("minimum") is not None:
            yield frame | {member: said["minimum"] - 1}
        if "maxLength" in said:
            yield frame | {member: "x" * (said["maxLength"] + 1)}


@pytest.mark.parametrize("name", names("receive"))
def test_only_frames_that_the_document_allows_are_read(
    gateway_over_nats: GatewayServer, name: str
) -> None:
    protocol = PACK if is_packed(name) else JSON
    schema = frame_contract.schema(name)
    for most in (False, True):
        with Socket(gateway_over_nats.http, protocol) as ws:
            frame = {each: value(said, most=most) for each, said in schema["properties"].items()}
            if not most:
                frame = {each: frame[each] for each in schema["required"]}
            frame["type"] = schema["properties"]["type"]["enum"][0]
            ws.send(frame)
            if name != "HelloFrame" or not most:
                ws.ids = 7_000_000
                assert ws.ask("ping")["type"] == "pong"
    for other in wrong(name, frame):
        with Socket(gateway_over_nats.http, protocol) as ws:
            ws.send(other)
            assert ws.closed()[0] == 4100, other
