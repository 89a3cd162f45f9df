"""A JSON parser with nats-server's error texts, which returns a tree of nodes.

The tree keeps the details that typed decoding needs and a plain parser loses: the order and
repetition of members, the literal text of numbers, the position of every value. The parser is not
recursive, so deep nesting needs no stack. Offsets in error texts are in bytes and point after the
offending character.

A client may send a payload with very many values, and each takes microseconds. A body with more
than a given number of values is therefore refused, unlike in nats-server.
"""

import json
import re
from collections.abc import Iterator
from typing import Literal

from core.goinput import text_of

MAX_DEPTH = 10_000
MAX_VALUES = 32_768
"""Largest number of values in a body that is parsed in a thread."""
MAX_VALUES_ON_LOOP = 2_048
"""Largest number of values in a body that is parsed on the event loop."""
Kind = Literal["object", "array", "string", "number", "bool", "null"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_SIMPLE = re.compile(rb'"([^"\\\x00-\x1f]*)"')
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
"""A string up to its closing quote, or up to the first byte that is not allowed in it."""
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_IN_NUMBERS = (b".", b"e", b"E")
_EXPONENT = rb"[eE][+-]?[0-9]*"
_NUMBER_PREFIX = re.compile(
    rb"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:%b)?)?|%b)?)?" % (_EXPONENT, _EXPONENT)
)
"""The longest prefix of a number, for the position of the error in an incomplete number."""
_LITERALS: dict[bytes, tuple[bytes, Kind]] = {
    b"t": (b"true", "bool"),
    b"f": (b"false", "bool"),
    b"n": (b"null", "null"),
}


class JsonError(ValueError):
    """Raised for a text that is not JSON, or not of the expected type."""


class Node:
    """One JSON value of the tree.

    Attributes:
        kind: The JSON type.
        start: Offset of the first byte of its text in the body.
        end: Offset after the last byte of its text in the body.
        text: The value of a string, or the literal text of a number, boolean or null.
        members: Names and values of an object, in order.
        items: The items of an array.
    """

    __slots__ = ("end", "items", "kind", "members", "start", "text")

    def __init__(self, kind: Kind, start: int, end: int, text: str = "") -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.text = text
        self.members: list[tuple[str, Node]] = _NO_MEMBERS
        self.items: list[Node] = _NO_ITEMS


# Shared by all nodes without members or items; never modified.
_NO_MEMBERS: list[tuple[str, Node]] = []
_NO_ITEMS: list[Node] = []


def parse_all(body: bytes, most: int = MAX_VALUES) -> Iterator[Node]:
    """Yield the JSON values in `body`, which may have several one after the other.

    Raises:
        JsonError: The body is not JSON, or has more than `most` values, nested ones included.
    """
    position = _skip(body, 0)
    while position < len(body):
        node, position, most = _parse(body, position, most)
        yield node
        position = _skip(body, position)


def quote(text: str) -> str:
    """Return a string in quotes, with the escapes of Go's %q."""
    out = ['"']
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char.isprintable():
            out.append(char)
        else:
            out.append(_escape(char))
    return "".join(out) + '"'


def _escape(char: str) -> str:
    named = {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
    }
    code = ord(char)
    if char in named:
        return named[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _skip(body: bytes, position: int) -> int:
    if position < len(body) and body[position] > 32:
        return position
    found = _SPACE.match(body, position)
    return found.end() if found else position


def _parse(body: bytes, position: int, most: int) -> tuple[Node, int, int]:
    stack: list[Node] = []
    names: list[str] = []
    for left in range(most - 1, -1, -1):
        node = _value(body, position)
        position = node.end
        if node.kind in ("object", "array"):
            if len(stack) == MAX_DEPTH:
                raise JsonError(f"exceeded max depth at offset {node.start + 1}")
            stack.append(node)
            position, closed = _open(body, node, names)
            if not closed:
                continue
            node = stack.pop()
        while stack:
            parent = stack[-1]
            if parent.kind == "object":
                parent.members.append((names.pop(), node))
            else:
                parent.items.append(node)
            position, closed = _after(body, position, parent, names)
            if not closed:
                break
            node = stack.pop()
        else:
            return node, position, left
    raise JsonError(f"more than {most} values")


def _open(body: bytes, node: Node, names: list[str]) -> tuple[int, bool]:
    """Return the position of the first value in an object or array, and whether it is empty."""
    position = _skip(body, node.start + 1)
    closing = b"}" if node.kind == "object" else b"]"
    if body[position : position + 1] == closing:
        node.end = position + 1
        return position + 1, True
    return (_name(body, position, names) if node.kind == "object" else position), False


def _after(body: bytes, position: int, parent: Node, names: list[str]) -> tuple[int, bool]:
    """Return the position of the next value of `parent`, and whether `parent` has ended instead."""
    is_object = parent.kind == "object"
    position = _skip(body, position)
    char = body[position : position + 1]
    if char == (b"}" if is_object else b"]"):
        parent.end = position + 1
        return position + 1, True
    if char != b",":
        where = "after object key:value pair" if is_object else "after array element"
        raise _unexpected(body, position, where)
    position = _skip(body, position + 1)
    return (_name(body, position, names) if is_object else position), False


def _name(body: bytes, position: int, names: list[str]) -> int:
    if body[position : position + 1] != b'"':
        raise _unexpected(body, position, "looking for beginning of object key string")
    text, position = _string(body, position)
    position = _skip(body, position)
    if body[position : position + 1] != b":":
        raise _unexpected(body, position, "after object key")
    names.append(text)
    return _skip(body, position + 1)


def _value(body: bytes, position: int) -> Node:
    char = body[position : position + 1]
    if char == b'"':
        text, end = _string(body, position)
        return Node("string", position, end, text)
    if char == b"{":
        node = Node("object", position, position + 1)
        node.members = []
        return node
    if char == b"[":
        node = Node("array", position, position + 1)
        node.items = []
        return node
    if char in _LITERALS and char:
        literal, kind = _LITERALS[char]
        end = _literal(body, position, literal)
        return Node(kind, position, end, literal.decode())
    if char == b"-" or char.isdigit():
        found = _NUMBER.match(body, position)
        follower = body[found.end() : found.end() + 1] if found is not None else b"."
        if found is None or follower in _IN_NUMBERS:
            rest = _NUMBER_PREFIX.match(body, position)
            end = rest.end() if rest else position
            if found is None or found.end() != end:
                raise _unexpected(body, end, "in numeric literal")
        return Node("number", position, found.end(), found.group().decode())
    raise _unexpected(body, position, "looking for beginning of value")


def _literal(body: bytes, position: int, literal: bytes) -> int:
    for index, expected in enumerate(literal):
        if body[position + index : position + index + 1] != bytes((expected,)):
            name = literal.decode()
            where = f"in literal {name} (expecting '{chr(expected)}')"
            raise _unexpected(body, position + index, where)
    return position + len(literal)


def _string(body: bytes, position: int) -> tuple[str, int]:
    found = _SIMPLE.match(body, position)
    if found is not None:
        return text_of(found.group(1)), found.end()
    found = _STRING.match(body, position)
    assert found is not None, "it begins with a quotation mark"
    end = found.end()
    char = body[end : end + 1]
    if char == b'"':
        escaped = text_of(body[position : end + 1])
        return _join_surrogates(json.loads(escaped)), end + 1
    if char == b"\\":
        raise _bad_escape(body, end)
    raise _unexpected(body, end, "in string")


def _bad_escape(body: bytes, position: int) -> JsonError:
    end = position + (6 if body[position + 1 : position + 2] == b"u" else 2)
    if len(body) < end:
        return JsonError("unexpected EOF")
    sequence = text_of(body[position:end])
    return JsonError(f"invalid escape sequence `{sequence}` in string at offset {end}")


def _join_surrogates(text: str) -> str:
    """Join pairs of escaped surrogates to one character; lone ones become U+FFFD."""
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unexpected(body: bytes, position: int, where: str) -> JsonError:
    if position >= len(body):
        return JsonError("unexpected EOF")
    char, size = _rune(body, position)
    if char == "'":
        shown = "\\'"
    elif char == '"':
        shown = '"'
    else:
        shown = quote(char)[1:-1] if char else f"\\x{body[position]:02x}"
    return JsonError(f"invalid character '{shown}' {where} at offset {position + size}")


def _rune(body: bytes, position: int) -> tuple[str, int]:
    for size in range(1, 5):
        try:
            return body[position : position + size].decode(), size
        except UnicodeDecodeError:
            continue
    return "", 1
