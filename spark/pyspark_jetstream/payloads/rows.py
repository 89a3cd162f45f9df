"""Parser of one JSON payload, by the rules of Spark's `from_json` (pure Python, no I/O).

It parses the payloads that Arrow cannot, at some microseconds per byte. Its model is Spark 4's
`JacksonParser`. A member that does not fit its type is null, and the other members keep their
values. If a member occurs twice, the last value counts. Text after the value is ignored.
"""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from pyspark_jetstream import times
from pyspark_jetstream.payloads.text import as_text
from pyspark_jetstream.payloads.tokens import Malformed, Tokens

Convert = Callable[[Tokens], Any]

_SIZES = {"int8": (-128, 255), "int16": (-(1 << 15), (1 << 15) - 1)}
"""Valid integers by type; Jackson also accepts a byte without sign."""
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = ("NaN", "Infinity", "+Infinity", "+INF", "-Infinity", "-INF")
_EXACT = Context(prec=2000, Emin=-10_000, Emax=10_000)


class Mismatch(ValueError):
    """A JSON value does not fit its type."""


class Partial(Exception):
    """Some members of a JSON value do not fit their types.

    Args:
        value: The value, with null for those members.
        reason: Description of the first mismatch.
    """

    def __init__(self, value: Any, reason: str) -> None:
        super().__init__(reason)
        self.value, self.reason = value, reason


def unexpected(error: Exception) -> str:
    """Return the text of an unexpected exception, as the reason why a payload is corrupt."""
    return f"the payload cannot be read ({type(error).__name__}: {error})"


class RowReader:
    """Parser of single payloads into Python values of one Arrow type.

    Args:
        kind: The type: a struct, a list or a map.
        zone: Time zone of times without one.
    """

    def __init__(self, kind: pa.DataType, zone: str) -> None:
        self._kind = kind
        self._zone = zone
        self._root = self._root_converter(kind)

    def read(self, text: str) -> tuple[Any, str]:
        """Parse a payload; return its value, and the reason why parts are missing ("" if none are).

        A payload of blanks is null. A payload that does not fit the type is a struct of nulls, or
        null for a list or map.
        """
        try:
            return self._read(Tokens(text))
        except Exception as error:  # no payload may end a query
            return self.nothing(), unexpected(error)

    def nothing(self) -> Any:
        """Return the value of a payload that does not fit the type.

        It is a struct of nulls for a struct type, else None.
        """
        is_struct = pa.types.is_struct(self._kind)
        return {one.name: None for one in self._kind} if is_struct else None

    def _read(self, tokens: Tokens) -> tuple[Any, str]:
        try:
            if tokens.next() is None:
                return None, ""
            value = self._root(tokens)
            if value is None:
                raise Mismatch("null is no value of the type")
        except Partial as partial:
            return partial.value, partial.reason
        except ValueError as error:
            return self.nothing(), str(error)
        return value, ""

    def _root_converter(self, kind: pa.DataType) -> Convert:
        convert = self._converter(kind)
        if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
            return convert
        element = self._converter(kind.value_type)

        def one_or_many(tokens: Tokens) -> Any:
            """Accept an object as a list of one."""
            if tokens.kind != "{":
                return convert(tokens)
            try:
                return [element(tokens)]
            except Partial as partial:
                raise Partial([partial.value], partial.reason) from None

        return one_or_many

    def _converter(self, kind: pa.DataType) -> Convert:
        types = pa.types
        if types.is_struct(kind):
            fields = {one.name: (one.name, self._converter(one.type)) for one in kind}
            return _expecting("{", lambda tokens: _object(tokens, fields))
        if types.is_list(kind):
            element = self._converter(kind.value_type)
            return _expecting("[", lambda tokens: _array(tokens, element))
        if types.is_map(kind):
            item = self._converter(kind.item_type)
            return _expecting("{", lambda tokens: _map(tokens, item))
        return _scalar(self._scalar_converter(kind))

    def _scalar_converter(self, kind: pa.DataType) -> Convert:
        types = pa.types
        if types.is_string(kind):
            return lambda tokens: tokens.string() if tokens.kind == "string" else as_text(tokens)
        if types.is_boolean(kind):
            return _boolean
        if types.is_integer(kind):
            return _integer(kind)
        if types.is_floating(kind):
            return _floating
        if types.is_decimal(kind):
            return lambda tokens: _decimal(tokens, kind.precision, kind.scale)
        if types.is_binary(kind):
            return _binary
        if types.is_date(kind):
            return lambda tokens: _time(tokens, times.date)
        if types.is_timestamp(kind) and kind.tz is None:
            return lambda tokens: _time(tokens, times.local)
        if types.is_timestamp(kind):
            return lambda tokens: _timestamp(tokens, self._zone)
        return lambda tokens: None  # void


def _expecting(kind: str, convert: Convert) -> Convert:
    def converter(tokens: Tokens) -> Any:
        if tokens.kind == "name":
            tokens.next()
        if tokens.kind in (None, "null"):
            return None
        if tokens.kind != kind:
            raise _mismatch(tokens)
        return convert(tokens)

    return converter


def _scalar(convert: Convert) -> Convert:
    def converter(tokens: Tokens) -> Any:
        if tokens.kind == "name":
            tokens.next()
        return None if tokens.kind in (None, "null") else convert(tokens)

    return converter


def _object(tokens: Tokens, fields: dict[str, tuple[str, Convert]]) -> dict[str, Any]:
    values: dict[str, Any] = {name: None for name, _ in fields.values()}
    reason = ""
    while tokens.next() not in (None, "}"):
        field = fields.get(tokens.name) if tokens.name is not None else None
        if field is None:
            tokens.skip_children()
            continue
        try:
            values[field[0]] = field[1](tokens)
        except Partial as partial:
            values[field[0]] = partial.value
            reason = reason or partial.reason
        except ValueError as error:
            reason = reason or str(error)
            tokens.skip_children()
    if reason:
        raise Partial(values, reason)
    return values


def _array(tokens: Tokens, element: Convert) -> list[Any]:
    values = []
    reason = ""
    while tokens.next() not in (None, "]"):
        try:
            values.append(element(tokens))
        except Partial as partial:
            values.append(partial.value)
            reason = reason or partial.reason
    if reason:
        raise Partial(values, reason)
    return values


def _map(tokens: Tokens, item: Convert) -> list[tuple[str, Any]]:
    """Return the entries in order, with duplicate names. Raises Mismatch if an entry does not
    fit.
    """
    entries = []
    reason = failure = ""
    while tokens.next() not in (None, "}"):
        name = tokens.name or ""
        try:
            entries.append((name, item(tokens)))
        except Partial as partial:
            entries.append((name, partial.value))
            reason = reason or partial.reason
        except ValueError as error:
            failure = failure or str(error)
            tokens.skip_children()
    if failure:
        raise Mismatch(failure)
    if reason:
        raise Partial(entries, reason)
    return entries


def _mismatch(tokens: Tokens) -> Mismatch:
    if tokens.kind == "string":
        tokens.string()  # a mistake within the string takes precedence, as in Spark
    where = f"member {tokens.name!r}" if tokens.name is not None else "the payload"
    return Mismatch(f"{where} has a value of another type ({tokens.kind})")


def _boolean(tokens: Tokens) -> bool:
    if tokens.kind not in ("true", "false"):
        raise _mismatch(tokens)
    return tokens.kind == "true"


def _integer(kind: pa.DataType) -> Convert:
    size = kind.bit_width
    low, high = _SIZES.get(str(kind), (-(1 << size - 1), (1 << size - 1) - 1))

    def convert(tokens: Tokens) -> int:
        if tokens.kind != "int":
            raise _mismatch(tokens)
        value = int(tokens.raw)
        if not low <= value <= high:
            raise Mismatch(f"member {tokens.name!r} is out of the range of its type")
        return value - 256 if size == 8 and value > 127 else value

    return convert


def _floating(tokens: Tokens) -> float:
    if tokens.kind == "int":
        return int(tokens.raw) + 0.0 if len(tokens.raw) < 300 else float(tokens.raw)
    if tokens.kind == "float":
        return float(tokens.raw)
    if tokens.kind == "string" and tokens.string() in _WORDS:
        return float(tokens.raw.replace("INF", "Infinity"))
    raise _mismatch(tokens)


def _decimal(tokens: Tokens, precision: int, scale: int) -> Decimal:
    if tokens.kind not in ("int", "float", "string"):
        raise _mismatch(tokens)
    # Java accepts the digits of every script in the Basic Multilingual Plane.
    text = tokens.string().replace(",", "") if tokens.kind == "string" else tokens.raw
    if not _DECIMAL.fullmatch(text) or max(text) > "\uffff":
        raise _mismatch(tokens)
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise _mismatch(tokens) from None
    if value.adjusted() >= precision - scale and value:
        raise Mismatch(f"member {tokens.name!r} has more digits than its type")
    return value if value else abs(value)


def _binary(tokens: Tokens) -> bytes:
    if tokens.kind != "string":
        raise _mismatch(tokens)
    return tokens.base64()


def _time(tokens: Tokens, parse: Callable[[str], int | None]) -> int:
    value = parse(tokens.string()) if tokens.kind == "string" else None
    if value is None:
        raise _mismatch(tokens)
    return value


def _timestamp(tokens: Tokens, zone: str) -> int:
    if tokens.kind != "int":
        return _time(tokens, lambda text: times.timestamp(text, zone))
    seconds = int(tokens.raw)
    if not -(1 << 63) <= seconds < 1 << 63:
        raise Mismatch(f"member {tokens.name!r} is out of the range of its type")
    wrapped = seconds * times.MICROS & (1 << 64) - 1  # overflow wraps around as in Java
    return wrapped - (1 << 64) if wrapped >> 63 else wrapped


__all__ = ["Malformed", "Mismatch", "RowReader"]
