"""Generation of JSON schemas for request and response bodies; each type once, under its name."""

import types
from collections.abc import Iterable
from typing import Any, Union, get_args, get_origin

import msgspec

from gateway.contract.wire_schemas import as_written, structs_of
from gateway.requests.operation import RAW, Operation

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
_DURATION_TEXT = r"^((\d+(\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h))+$"
_NAMED: dict[str, Schema] = {
    "Duration": {
        "description": "How long: nanoseconds, or text such as `500ms`, `1.5s`, `2m`.",
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "format": "int64"},
            {"$ref": REF.format(name="DurationText")},
        ],
    },
    "DurationText": {
        "description": "How long: text such as `500ms`, `1.5s`, `2m30s`.",
        "type": "string",
        "maxLength": 64,
        "pattern": _DURATION_TEXT,
    },
    "Bytes": {
        "description": "Bytes of any kind, as they are.",
        "type": "string",
        "format": "binary",
    },
    "Text": {"description": "Text of this media type.", "type": "string"},
    "Lines": {
        "description": "JSON objects, one a line.",
        "type": "string",
        "contentMediaType": "application/x-ndjson",
    },
    "Events": {
        "description": "Server-sent events; the data of each is a JSON object.",
        "type": "string",
        "contentMediaType": "text/event-stream",
    },
}
"""Schemas without a struct."""
_INT_OR_TEXT = ({"type": "integer"}, {"type": "string"})


class Schemas:
    """The JSON schemas for the bodies of operations, and for further types.

    Attributes:
        components: All schemas, by name.
    """

    def __init__(self, operations: Iterable[Operation], further: Iterable[object] = ()) -> None:
        rows = tuple(operations)
        bodies = {name: kind for each in rows for name, kind in _bodies(each)}
        leaves = dict.fromkeys(
            leaf for kind in (*bodies.values(), *further) for leaf in _leaves(kind)
        )
        schemas, found = msgspec.json.schema_components(leaves, schema_hook=_any, ref_template=REF)
        self.components: dict[str, Schema] = dict(found)
        taken = structs_of(each.takes for each in rows if each.takes is not RAW)
        as_written(self.components, leaves, set(taken))
        self._leaves = dict(zip(leaves, schemas, strict=True))
        self._names: dict[str, str] = {}
        for name, kind in bodies.items():
            self._add(name, kind)
        for row in rows:
            if row.merges:
                self._add_patch(row)
        _name_choices(self.components)
        _tidy(list(self.components.values()))
        self.components |= {name: {"title": name, **said} for name, said in _NAMED.items()}

    def _add(self, name: str, kind: object) -> None:
        schema = self._composed(kind)
        reference = schema.get("$ref", "")
        self._names[name] = reference.rpartition("/")[2] if set(schema) == {"$ref"} else name
        if self._names[name] == name:  # a list or a union: it has no name of its own
            self.components[name] = {"title": name, **schema}

    def _add_patch(self, row: Operation) -> None:
        """Add the schema of a JSON merge patch (RFC 7396) of an operation's body.

        Each member accepts a new value, or null to remove the member.
        """
        body = body_name(row, "Request")
        of = self._names[body]
        name = of if of.endswith("Patch") else f"{of}Patch"
        whole = self.components[of]
        members = {
            member: {"anyOf": [_bare(schema), {"type": "null"}]}
            for member, schema in whole["properties"].items()
        }
        patch: Schema = {"title": name, "type": "object", "properties": members}
        patch["description"] = f"A merge patch (RFC 7396) of {of}: null takes a member away."
        if "additionalProperties" in whole:
            patch["additionalProperties"] = whole["additionalProperties"]
        self.components[name] = patch
        self._names[body] = name

    def _composed(self, kind: object) -> Schema:
        if get_origin(kind) is list:
            (item,) = get_args(kind)
            return {"type": "array", "items": self._composed(item)}
        choices = _members(kind)
        if len(choices) > 1:
            return {"anyOf": [self._composed(each) for each in choices]}
        return self._leaves[kind]

    def of(self, name: str) -> Schema:
        """Return a reference to the schema of a body, by the name from `body_name`."""
        return {"$ref": REF.format(name=self._names[name])}


def body_name(operation: Operation, what: str) -> str:
    """Return the schema name of an operation's body, such as `CreateStreamRequest`."""
    return operation.id[0].upper() + operation.id[1:] + what


def named(name: str) -> Schema:
    """Return a reference to the schema of this name."""
    return {"$ref": REF.format(name=name)}


def reached(components: dict[str, Schema], begin: object) -> dict[str, Schema]:
    """Return the schemas that `begin` refers to, directly or through others, sorted by name."""
    found: dict[str, Schema] = {}
    waiting = [begin]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            name = str(each.get("$ref", "")).removeprefix(REF.format(name=""))
            if name in components and name not in found:
                found[name] = components[name]
                waiting.append(components[name])
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return dict(sorted(found.items()))


def _bodies(operation: Operation) -> Iterable[tuple[str, object]]:
    for what, kind in (
        ("Request", operation.takes),
        ("RequestLine", operation.takes_lines),
        ("Response", operation.gives),
        ("Line", operation.lines),
        ("Event", operation.events),
        ("Json", operation.json),
    ):
        if kind is not None and kind is not RAW:
            yield body_name(operation, what), kind


def _members(kind: object) -> tuple[object, ...]:
    """Return the member types of a union; another type as a tuple of one."""
    if get_origin(kind) in (Union, types.UnionType):
        return get_args(kind)
    return (kind,)


def _leaves(kind: object) -> Iterable[object]:
    """Yield the types that a type is composed of, through lists and unions."""
    if get_origin(kind) is list:
        yield from _leaves(get_args(kind)[0])
    elif len(choices := _members(kind)) > 1:
        for each in choices:
            yield from _leaves(each)
    else:
        yield kind


def _bare(schema: Schema) -> Schema:
    """Return a schema without its default, because a patch has no defaults."""
    return {key: value for key, value in schema.items() if key != "default"}


def _tidy(schema: Any) -> None:
    """Replace durations by references, add the type of string enums, remove empty defaults, in
    place.
    """
    if isinstance(schema, list):
        for each in schema:
            _tidy(each)
    elif isinstance(schema, dict):
        _name_duration(schema)
        if all(isinstance(word, str) for word in schema.get("enum", (None,))):
            schema["type"] = "string"
        if "default" in schema and schema["default"] in (None, [], {}):
            del schema["default"]
        for each in schema.values():
            _tidy(each)


def _name_choices(components: dict[str, Schema]) -> None:
    """Move each enum of two or more strings to its own schema, in place."""
    known = {tuple(schema["enum"]): name for name, schema in components.items() if "enum" in schema}
    for name in sorted(components, key=lambda name: (len(name), name)):
        for member, schema in components[name].get("properties", {}).items():
            words = tuple(schema.get("enum", ()))
            if len(words) < 2:
                continue
            if words not in known:
                known[words] = name + member.title().replace("_", "")
                title = known[words]
                components[title] = {"title": title, "type": "string", "enum": list(words)}
            del schema["enum"]
            schema |= named(known[words])


def _name_duration(schema: Schema) -> None:
    choices = schema.get("anyOf", [])
    if all(each in choices for each in _INT_OR_TEXT):
        others = [each for each in choices if each not in _INT_OR_TEXT]
        if others:
            schema["anyOf"] = [named("Duration"), *others]
        else:
            del schema["anyOf"]
            schema |= named("Duration")


def _any(kind: type) -> Schema:
    """Return the schema of `object`, which msgspec cannot describe.

    Raises NotImplementedError for any other type.
    """
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(kind)
