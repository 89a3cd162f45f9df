"""JSON values as text, as Spark's `from_json` returns them for a field of type string (no I/O)."""

import re
from decimal import Decimal

from pyspark_jetstream.payloads.tokens import Malformed, Tokens

_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def as_text(tokens: Tokens) -> str:
    """Return the current JSON value as text, without blanks, with numbers as Java writes them.

    Raises Malformed if the text is not valid JSON up to the end of the value.
    """
    if tokens.kind in ("}", "]"):  # the rest of a value that contains a mistake
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
    """Return a token as text: a scalar, or the opening bracket of an object or array."""
    if tokens.kind == "string":
        return quoted(tokens.string())
    if tokens.kind == "int":
        return str(int(tokens.raw))
    if tokens.kind == "float":
        return java_double(float(tokens.raw))
    return tokens.kind or ""


def quoted(text: str) -> str:
    """Write a text as a JSON string."""
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def java_double(value: float) -> str:
    """Write a number as Java's `Double.toString`; NaN and infinities are in quotes."""
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "it is a number"
    text = "".join(map(str, digits))
    if len(text) == 1:  # Java writes at least two digits, those closest to the number
        text = f"{abs(value):.1e}"
        text, exponent = text[0] + text[2], int(text[4:]) - 1
    exponent += len(text) - 1
    text = text.rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent}"


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"
