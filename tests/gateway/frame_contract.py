"""What the AsyncAPI document that is committed says of a frame."""

import json
from functools import cache
from typing import Any

from jsonschema_rs import Validator, validator_for

from tests.support.jetgate import ROOT

Schema = dict[str, Any]


@cache
def document() -> Schema:
    """The document."""
    read: Schema = json.loads((ROOT / "openapi/asyncapi.json").read_bytes())
    return read


def names(way: str) -> list[str]:
    """The frames that the server takes (`receive`) or gives (`send`)."""
    said = document()["operations"][f"{way}Frames"]["messages"]
    return [each["$ref"].rpartition("/")[2] for each in said]


def schema(name: str) -> Schema:
    """The schema of a frame."""
    found: Schema = document()["components"]["schemas"][name]
    return found


def is_packed(name: str) -> bool:
    """Whether a frame is one of MessagePack alone."""
    return "contentType" in document()["components"]["messages"][name]


def name_of(way: str, frame: Schema, *, packed: bool) -> str:
    """The name of a frame, by its type and encoding. Raises AssertionError."""
    found = [name for name in names(way) if _type(name) == frame["type"]]
    found.sort(key=lambda name: is_packed(name) is not packed)
    assert found, f"the document has no frame {frame['type']}"
    return found[0]


def _type(name: str) -> str:
    return str(document()["components"]["messages"][name]["name"])


def check(way: str, frame: Schema, *, packed: bool) -> None:
    """Fail unless the document has this frame, with these members and no others."""
    name = name_of(way, frame, packed=packed)
    errors = [error.message for error in _validator(name).iter_errors(_shown(frame))]
    assert errors == [], (name, frame)


@cache
def _validator(name: str) -> Validator:
    schemas = _closed(document()["components"]["schemas"])
    return validator_for({**schemas[name], "components": {"schemas": schemas}})


def _closed(value: Any) -> Any:
    """The same, and no member may be there that is not told."""
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _closed(each) for name, each in value.items()}
    if isinstance(found.get("properties"), dict) and "title" in found:
        found.setdefault("additionalProperties", False)
    return found


def _shown(value: Any) -> Any:
    """Binary as a text: JSON has none."""
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
