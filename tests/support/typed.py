"""A check that a JSON payload of the server has exactly the members of its type in `core.model`."""

import json
import types
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from core.api.routes import ROUTES
from core.errors import ApiError
from core.model import advisory, codec
from core.model.message import PubAck
from core.model.response import SystemResponse
from core.model.wire import HIDDEN, INLINE, OMIT, OPTIONAL

JETSTREAM = b'{"type":"io.nats.jetstream.'
_PUB_ACK = (b'{"stream":"', b'{"error":{"code"')


@cache
def known() -> dict[str, type[msgspec.Struct]]:
    """Return the class of every API response and advisory, by its value of the member `type`."""
    events = [
        cls
        for cls in vars(advisory).values()
        if isinstance(cls, type) and issubclass(cls, advisory.Event) and cls is not advisory.Event
    ]
    classes: list[type[msgspec.Struct]] = [route.response for route in ROUTES]
    classes += [SystemResponse, *events]
    return {str(_default(cls, "type")): cls for cls in classes}


def _default(cls: type[msgspec.Struct], name: str) -> Any:
    fields = {field.name: field.default for field in msgspec.structs.fields(cls)}
    return fields[name]


def problems(payload: bytes) -> list[str]:
    """Return a text for each difference between a JSON payload and its class in `core.model`.

    The list is empty if there is none, and for other payloads than publish acknowledgements, API
    responses and advisories.
    """
    if payload.startswith(_PUB_ACK):
        return _of(PubAck, _members(payload))
    if not payload.startswith(JETSTREAM):
        return []
    members = _members(payload)
    cls = known().get(members["type"])
    if cls is None:
        return [f"no type for {members['type']}"]
    return _of(cls, members)


def _members(payload: bytes) -> dict[str, Any]:
    return dict(json.loads(payload))


def _of(cls: type[msgspec.Struct], members: dict[str, Any]) -> list[str]:
    found = list(_misfits(cls, members, cls.__name__))
    if found or issubclass(cls, advisory.Event):
        return found
    again = json.loads(codec.encode(_decode(cls, members)))
    return [] if again == members else [f"{cls.__name__}: {members} is read as {again}"]


def _decode(cls: type[msgspec.Struct], members: dict[str, Any]) -> msgspec.Struct:
    """Decode an answer strictly, with its inlined struct. Raises AssertionError if invalid."""
    inner = _inlined(cls)
    own = {k: v for k, v in members.items() if inner is None or k not in _names(inner[1])}
    rest = {k: v for k, v in members.items() if k not in own}
    try:
        value = codec.decode(cls, json.dumps(own).encode())
        if inner is not None and rest:
            part = codec.decode(inner[1], json.dumps(rest).encode())
            value = msgspec.structs.replace(value, **{inner[0]: part})
    except ApiError as error:
        raise AssertionError(f"{cls.__name__} cannot be read: {error}") from None
    return value


def _misfits(cls: type[msgspec.Struct], members: dict[str, Any], path: str) -> list[str]:
    """Yield nested members that the struct does not have, and required ones that are missing."""
    fields = _names(cls)
    inner = _inlined(cls)
    if inner is not None:
        # An answer with an error has no members of the inlined struct.
        fields = fields | {
            name: (hint, is_needed and "error" not in members)
            for name, (hint, is_needed) in _names(inner[1]).items()
        }
    found = [f"{path}.{name} is unknown" for name in members if name not in fields]
    found += [
        f"{path}.{name} is missing"
        for name, (_, is_needed) in fields.items()
        if is_needed and name not in members
    ]
    for name, member in members.items():
        struct = _struct(fields[name][0]) if name in fields else None
        for item in member if isinstance(member, list) else [member]:
            if struct is not None and isinstance(item, dict):
                found += _misfits(struct, item, f"{path}.{name}")
    return found


@cache
def _names(cls: type[msgspec.Struct]) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each member of a struct, and True if it is always present."""
    hints = get_type_hints(cls, include_extras=True)
    pairs = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return {
        name: (hints[field], {OMIT, OPTIONAL}.isdisjoint(_marks(hints[field])))
        for field, name in pairs
        if not {INLINE, HIDDEN} & set(_marks(hints[field]))
    }


def _inlined(cls: type[msgspec.Struct]) -> tuple[str, type[msgspec.Struct]] | None:
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if INLINE in _marks(hint):
            struct = _struct(hint)
            assert struct is not None
            return name, struct
    return None


def _struct(hint: Any) -> type[msgspec.Struct] | None:
    """Return the struct inside an annotation (a union, tuple or `Annotated`); None without one."""
    if get_origin(hint) in (Annotated, Union, types.UnionType, tuple):
        inner = (_struct(arg) for arg in get_args(hint))
        return next((struct for struct in inner if struct is not None), None)
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return hint if is_struct else None


def _marks(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return (*marks, *_marks(inner))
    return ()
