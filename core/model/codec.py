"""Encoding and decoding of API structs as JSON, exactly as nats-server does.

Decoding follows Go's `encoding/json` and refuses unknown members. Names match regardless of case, a
repeated member overwrites the earlier one, null keeps a value, and the first error is reported.
Encoding follows the declaration order of the struct and the annotations of `core.model.wire`.
"""

import base64
import re
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from core.goinput import folded, text_of
from core.model import gojson
from core.model.api_errors import api_error
from core.model.gojson import JsonError, Node
from core.model.gotime import UnwritableTime, format_zoned, parse_time
from core.model.wire import BASE64, HIDDEN, INLINE, OMIT, OPTIONAL, ZERO_TIME, Instant, Scalar

T = TypeVar("T", bound=msgspec.Struct)
Reader = Callable[["Context", bytes, Node, Any], Any]
_OLDER_END = "unexpected end of JSON input"


class Context:
    """The position of the decoder in a JSON document, for error texts.

    `root` is the name of the Go type; `lenient` True ignores unknown members.
    """

    __slots__ = ("lenient", "path", "root")

    def __init__(self, root: str, lenient: bool) -> None:
        self.root = root
        self.path: list[str] = []
        self.lenient = lenient

    def wrong_type(self, value: str, go_type: str) -> JsonError:
        if not self.path:
            return JsonError(f"json: cannot unmarshal {value} into Go value of type {go_type}")
        what = "" if self.path[-1].isdigit() else "Go struct field "
        place = f"{what}{self.root}.{'.'.join(self.path)}"
        return JsonError(f"json: cannot unmarshal {value} into {place} of type {go_type}")


class WireEnum(StrEnum):
    """The base of enumerations whose values are JSON strings.

    Subclasses may define `json_aliases` (other accepted JSON texts) and `json_error`, the error
    text for other values: `{quoted}` stands for the JSON text as a Go string, `{raw}` for the JSON
    text.
    """

    @classmethod
    def json_aliases(cls) -> Mapping[str, str]:
        return {}

    @classmethod
    def json_error(cls) -> str:
        return "can not unmarshal {quoted}"

    @classmethod
    def read(cls, text: str) -> "WireEnum":
        """Return the member for the JSON text of a value, quotes included.

        Raises JsonError if there is none.
        """
        value = cls.json_aliases().get(text)
        if value is None and text[:1] == '"' and text[-1:] == '"':
            value = text[1:-1]
        if value is not None and value in cls._value2member_map_:
            return cls(value)
        raise JsonError(cls.json_error().format(quoted=gojson.quote(text), raw=text))


class Field:
    """Decodes and encodes one member of a struct, by the annotations of `core.model.wire`."""

    __slots__ = ("attribute", "is_empty", "marks", "name", "omit", "reader", "writer")

    def __init__(self, attribute: str, name: str, annotation: Any) -> None:
        self.attribute = attribute
        self.name = name
        self.marks = _marks(annotation)
        self.omit = OMIT in self.marks or OPTIONAL in self.marks
        is_time = any(isinstance(mark, Instant) for mark in self.marks)
        self.is_empty = _is_none if is_time or OPTIONAL in self.marks else _is_empty
        self.reader, _ = _reader(annotation)
        self.writer = _writer(annotation)


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return tuple(
        Field(attribute, name, hints[attribute])
        for attribute, name in names
        if HIDDEN not in _marks(hints[attribute])
    )


@cache
def _by_name(cls: type[msgspec.Struct]) -> dict[str, Field]:
    return {field.name: field for field in _fields(cls)}


def go_name(cls: type[msgspec.Struct]) -> str:
    """Return the name of the struct's Go type, which nats-server's error texts contain."""
    return str(getattr(cls, "go_name", cls.__name__))


# --- decoding --------------------------------------------------------------------------------


def decode(cls: type[T], body: bytes) -> T:
    """Decode the body of an API request as a struct.

    Raises ApiError JSInvalidJSON, with nats-server's text, if the body is invalid.
    """
    try:
        return _decode(cls, body, lenient=False)
    except JsonError as error:
        raise api_error("JSInvalidJSON", err=str(error)) from None


def decode_lenient(cls: type[T], body: bytes) -> T:
    """Decode JSON as a struct, ignoring unknown members. Raises JsonError if it is invalid."""
    return _decode(cls, body, lenient=True)


def decode_older(cls: type[T], body: bytes, most: int = gojson.MAX_VALUES) -> T:
    """Decode a body by the rules of nats-server's older JSON decoder, which some requests use.

    It accepts exactly one value, ignores unknown members, and its error texts have no offsets.
    Raises JsonError if the body is invalid, or has more than `most` values.
    """
    try:
        first = next(gojson.parse_all(body, most), None)
        rest = body[first.end :].lstrip(b" \t\r\n") if first is not None else b""
        if rest:
            shown = gojson.quote(rest[:1].decode("latin-1"))[1:-1]
            raise JsonError(f"invalid character '{shown}' after top-level value")
        if first is None:
            raise JsonError(_OLDER_END)
        return _decode(cls, body, lenient=True, most=most)
    except JsonError as error:
        text = re.sub(r" at offset \d+$", "", str(error))
        raise JsonError(text.replace("unexpected EOF", _OLDER_END)) from None


def older_reader(cls: type[T]) -> Callable[[bytes], T]:
    """Return a function like `decode_older` for one struct, fast for the usual bodies.

    The struct must refuse unknown members and bound its numbers: msgspec then accepts only bodies
    that nats-server decodes in the same way. For use on the event loop: a body has at most
    MAX_VALUES_ON_LOOP values.
    """
    quick = msgspec.json.Decoder(cls).decode

    def read(body: bytes) -> T:
        try:
            return quick(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return decode_older(cls, body, gojson.MAX_VALUES_ON_LOOP)

    return read


def _decode(cls: type[T], body: bytes, *, lenient: bool, most: int = gojson.MAX_VALUES) -> T:
    context = Context(go_name(cls), lenient)
    value: T = cls()
    for node in gojson.parse_all(body, most):
        value = _read_struct(cls, context, body, node, value)
    return value


def _read_struct(cls: type[T], context: Context, body: bytes, node: Node, old: Any) -> T:
    if node.kind == "null":
        return old if isinstance(old, cls) else cls()
    if node.kind != "object":
        raise context.wrong_type(node.kind, f"server.{go_name(cls)}")
    values: dict[str, Any] = {}
    for name, member in node.members:
        field = _find(cls, name)
        if field is None:
            if context.lenient:
                continue
            raise JsonError(f"json: unknown field {gojson.quote(name)}")
        before = values.get(field.attribute, getattr(old, field.attribute, None))
        context.path.append(name)
        values[field.attribute] = field.reader(context, body, member, before)
        context.path.pop()
    if isinstance(old, cls):
        return msgspec.structs.replace(old, **values)
    return cls(**values)


def _find(cls: type[msgspec.Struct], name: str) -> Field | None:
    fields = _by_name(cls)
    found = fields.get(name)
    if found is None:
        found = fields.get(folded(name))
    return found


def _reader(annotation: Any) -> tuple[Reader, str]:
    """Return the decoding function for an annotation, and the name of its Go type."""
    base, marks = _plain(annotation), _marks(annotation)
    scalar = next((mark for mark in marks if isinstance(mark, Scalar)), None)
    if scalar is not None:
        return _read_number(scalar), scalar.go
    instant = next((mark for mark in marks if isinstance(mark, Instant)), None)
    if instant is not None:
        return _read_time(instant), "time.Time"
    if BASE64 in marks:
        return _read_base64, "[]uint8"
    return _reader_of_type(base)


def _reader_of_type(base: Any) -> tuple[Reader, str]:
    origin = get_origin(base)
    if origin in (Union, types.UnionType):
        inner = next(arg for arg in get_args(base) if arg is not types.NoneType)
        reader, go = _reader(inner)
        return _read_optional(reader), f"*{go}"
    if origin is tuple:
        reader, go = _reader(get_args(base)[0])
        return _read_array(reader, f"[]{go}"), f"[]{go}"
    if origin is dict:
        reader, go = _reader(get_args(base)[1])
        return _read_map(reader, f"map[string]{go}"), f"map[string]{go}"
    if base is str:
        return _read_string, "string"
    if base is bool:
        return _read_bool, "bool"
    if isinstance(base, type) and issubclass(base, WireEnum):
        return _read_enum(base), "string"
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        cls = base
        return lambda c, b, n, old: _read_struct(cls, c, b, n, old), f"server.{go_name(base)}"
    raise TypeError(f"no JSON form for {base!r}")


def _read_number(scalar: Scalar) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        if node.kind == "null":
            return old if old is not None else 0
        if node.kind != "number":
            raise context.wrong_type(node.kind, scalar.go)
        literal = node.text
        if literal.lstrip("-").isdigit() and len(literal) <= 20:
            value = int(literal)
            if scalar.low <= value <= scalar.high and not (literal[0] == "-" and scalar.low == 0):
                return value
        raise context.wrong_type(f"number {literal}", scalar.go)

    return read


def _read_time(instant: Instant) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        if node.kind == "null":
            return old if instant.zero_is_unset else None
        if node.kind != "string":
            raise context.wrong_type(node.kind, "time.Time")
        try:
            value = parse_time(node.text)
        except ValueError as error:
            raise JsonError(str(error)) from None
        return 0 if instant.zero_is_unset and value == ZERO_TIME else value

    return read


def _read_base64(context: Context, body: bytes, node: Node, old: Any) -> Any:
    if node.kind != "string":
        return b""
    return base64.b64decode(node.text)


def _read_string(context: Context, body: bytes, node: Node, old: Any) -> Any:
    if node.kind == "null":
        return old if old is not None else ""
    if node.kind != "string":
        raise context.wrong_type(node.kind, "string")
    return node.text


def _read_bool(context: Context, body: bytes, node: Node, old: Any) -> Any:
    if node.kind == "null":
        return old if old is not None else False
    if node.kind != "bool":
        raise context.wrong_type(node.kind, "bool")
    return node.text == "true"


def _read_enum(cls: type[WireEnum]) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        return cls.read(text_of(body[node.start : node.end]))

    return read


def _read_optional(inner: Reader) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        return None if node.kind == "null" else inner(context, body, node, old)

    return read


def _read_array(inner: Reader, go: str) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        if node.kind == "null":
            return ()
        if node.kind != "array":
            raise context.wrong_type(node.kind, go)
        values = []
        for index, item in enumerate(node.items):
            context.path.append(str(index))
            values.append(inner(context, body, item, None))
            context.path.pop()
        return tuple(values)

    return read


def _read_map(inner: Reader, go: str) -> Reader:
    def read(context: Context, body: bytes, node: Node, old: Any) -> Any:
        if node.kind == "null":
            return {}
        if node.kind != "object":
            raise context.wrong_type(node.kind, go)
        values = dict(old) if old else {}
        for name, member in node.members:
            context.path.append(name)
            values[name] = inner(context, body, member, None)
            context.path.pop()
        return values

    return read


# --- encoding --------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_ordered = msgspec.json.Encoder(order="sorted")
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


def encode(value: msgspec.Struct) -> bytes:
    """Encode a struct as JSON, as nats-server does."""
    return _escape(_encoder.encode(to_wire(value)))


def encode_stored(value: msgspec.Struct, refusal: str, what: str) -> str:
    """Encode a configuration as JSON for storage; `what` names it in the error.

    Raises ApiError `refusal` if a time in it cannot be encoded, such as one in the zone +24:00.
    """
    try:
        return encode(value).decode()
    except UnwritableTime:
        raise api_error(refusal, err=f"error creating store for {what}") from None


def encode_plain(value: object) -> bytes:
    """Encode dicts, lists and strings as JSON, with members sorted by name, as nats-server does."""
    return _escape(_ordered.encode(value))


def _escape(text: bytes) -> bytes:
    for char, escaped in _ESCAPES:
        if char in text:
            text = text.replace(char, escaped)
    return text


def to_wire(value: msgspec.Struct) -> dict[str, Any]:
    """Return a struct as plain dicts, lists, strings and numbers, in its JSON form."""
    out: dict[str, Any] = {}
    for field in _fields(type(value)):
        member = getattr(value, field.attribute)
        if INLINE in field.marks:
            if member is not None:
                out.update(to_wire(member))
        elif not (field.omit and field.is_empty(member)):
            out[field.name] = field.writer(member)
    return out


def _is_none(member: Any) -> bool:
    return member is None


def _is_empty(member: Any) -> bool:
    if isinstance(member, WireEnum):
        return member is next(iter(type(member)))
    return member is None or (not isinstance(member, msgspec.Struct) and not member)


def _writer(annotation: Any) -> Callable[[Any], Any]:
    marks = _marks(annotation)
    for mark in marks:
        if isinstance(mark, Instant):
            if mark.zero_is_unset:
                return lambda value: format_zoned(value or ZERO_TIME)
            return lambda value: None if value is None else format_zoned(value)
    if BASE64 in marks:
        return lambda value: base64.b64encode(value).decode()
    return _write


def _write(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return to_wire(value)
    if isinstance(value, WireEnum):
        return value.value
    if isinstance(value, tuple | list):
        if value and isinstance(value[0], msgspec.Struct):
            return [_write(item) for item in value]
        return value
    if isinstance(value, dict):
        return {name: value[name] for name in sorted(value)}
    return value


# --- annotations -----------------------------------------------------------------------------


def _marks(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return (*marks, *_marks(inner))
    return ()


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
