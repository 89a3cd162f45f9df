"""Correction of msgspec's JSON schemas for JetStream's objects, by annotations in `core.model`.

msgspec describes the Python types: a time is a number, and an omitted member has a default. The
annotations describe the JSON: a time is text, and members may be omitted.
"""

from collections.abc import Iterable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from core.model.wire import OMIT, OPTIONAL, Instant, Scalar

Schema = dict[str, Any]
Struct = type[msgspec.Struct]

_CORE = "core.model."
_INT64 = (-(2**63), 2**63 - 1)


def structs_of(kinds: Iterable[object]) -> dict[str, Struct]:
    """Return the structs in these types and in their members, recursively, by name."""
    found: dict[str, Struct] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind.__name__ not in found:
                found[kind.__name__] = kind
                waiting += get_type_hints(kind).values()
        else:
            waiting += get_args(kind)
    return found


def as_written(components: dict[str, Schema], given: Iterable[object], taken: set[str]) -> None:
    """Correct the schemas of JetStream's objects so that they describe their JSON, in place.

    Args:
        components: All schemas by name.
        given: The types whose structs are corrected.
        taken: Names of structs in request bodies, where every member may be omitted.
    """
    for name, struct in structs_of(given).items():
        schema = components.get(name)
        if schema is None or not any(each.__module__.startswith(_CORE) for each in struct.__mro__):
            continue
        hints = get_type_hints(struct, include_extras=True)
        properties: dict[str, Schema] = schema["properties"]
        required = []
        for member, property_schema in properties.items():
            marks = _marks(hints[member])
            properties[member] = _member(property_schema, marks)
            if not any(mark in (OMIT, OPTIONAL) for mark in marks):
                required.append(member)
        schema["required"] = [] if name in taken else required
    for schema in components.values():
        if not schema.get("required", True):
            del schema["required"]
        if "enum" in schema:
            schema.setdefault("type", "string")


def _marks(hint: object) -> list[object]:
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return [*marks, *_marks(kind)]
    return [mark for each in get_args(hint) for mark in _marks(each)]


def _member(schema: Schema, marks: list[object]) -> Schema:
    """Return the schema of a member without its default: the server applies its own defaults."""
    schema.pop("default", None)
    schema = _present(schema)
    for mark in marks:
        if isinstance(mark, Instant):
            return {"type": "string", "format": "date-time"}
        if isinstance(mark, Scalar):
            _numbered(schema, mark)
    return schema


def _present(schema: Schema) -> Schema:
    """Return a schema without null, because JetStream omits a member that has no value."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        return _present(choices[0])
    if isinstance(items := schema.get("items"), dict):
        return schema | {"items": _present(items)}
    return schema


def _numbered(schema: Schema, mark: Scalar) -> None:
    if schema.get("type") == "array":
        _numbered(schema["items"], mark)
    elif isinstance(values := schema.get("additionalProperties"), dict):
        _numbered(values, mark)
    elif schema.get("type") == "integer":
        schema["minimum"], schema["maximum"] = mark.low, mark.high
        if (mark.low, mark.high) == _INT64:
            schema["format"] = "int64"
        if mark.go == "time.Duration":
            schema["description"] = "Nanoseconds."
