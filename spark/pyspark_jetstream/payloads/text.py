"""Values of JSON written as text again, as Spark does where a member is to be a string (pure)."""

import re
from decimal import Decimal

from pyspark_jetstream.payloads.tokens import Malformed, Tokens

_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def as_text(tokens: Tokens) -> str:
    """The current value, without blanks, its numbers as Java writes them. Raises Malformed."""
    if tokens.kind in ("}", "]"):  # what is left of a value with a mistake in it
        raise Malformed("the end of a value in the place of a value")
    parts: list[str] = []
    depth = 0
    is_first = True
    while True:
        kind = tokens.kind
        if kind in ("}", "]"):
            parts.append(kind)
            depth -= 1
            is_first = False
        else:
            parts.append("" if is_first else ",")
            is_first = kind in ("{", "[", "name")
            depth += kind in ("{", "[")
            parts.append(f"{quoted(tokens.name or '')}:" if kind == "name" else _part(tokens))
        if depth <= 0:
            return "".join(parts)
        tokens.next()


def _part(tokens: Tokens) -> str:
    """A token as text: a scalar, or the bracket that an object or an array begins with."""
    if tokens.kind == "string":
        return quoted(tokens.string())
    if tokens.kind == "int":
        return str(int(tokens.raw))
    if tokens.kind == "float":
        return java_double(float(tokens.raw))
    return tokens.kind or ""


def quoted(text: str) -> str:
    """A text as a string of JSON."""
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def java_double(value: float) -> str:
    """A number as `Double.toString` of Java writes it; what is no number in quotes."""
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "it is a number"
    text = "".join(map(str, digits))
    if len(text) == 1:  # Java writes at least two digits, those that are closest to the number
        text = f"{abs(value):.1e}"
        text, exponent = text[0] + text[2], int(text[4:]) - 1
    exponent += len(text) - 1
    text = text.rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent}"


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"
