"""Detection of repeated members in JSON objects; such objects are refused (RFC 8259, 4).

The parsers here keep the last of two equal members, while a proxy may have checked the first.
Scanning for repeated members takes several times as long as decoding a message. So colons are
counted first: a colon follows each name, and other colons occur only in strings. If a text has no
more colons than its decoded members account for, no member is repeated. Only other texts are
scanned.
"""

import json
import re
from typing import Any

from gateway.formats.models import Expect, HeaderValues

TWICE = "an object has a member twice"
_ESCAPED = re.compile(r"\\u00(?:3[0-9aA]|[4-7])")
_ESCAPED_BYTES = re.compile(_ESCAPED.pattern.encode())


class _Repeats:
    """Stands for a parsed object that repeats a member."""


_REPEATS = _Repeats()


def is_plain(text: bytes) -> bool:
    """Return True if counting the colons of JSON text detects each repeated member in it.

    That is so if no escape sequence stands for a colon, or for a letter of a member's name.
    """
    return b"\\" not in text or _ESCAPED_BYTES.search(text) is None


def is_plain_text(text: str) -> bool:
    """Return True if counting the colons of JSON text detects each repeated member (`is_plain`)."""
    return "\\" not in text or _ESCAPED.search(text) is None


def colons_beside(headers: HeaderValues | None, msg_id: str | None, expect: Expect | None) -> int:
    """Return the number of colons in the JSON text of these members, if none is repeated.

    They are the colons after names and inside values. If the text has more colons, it may repeat a
    member, and must be scanned.
    """
    count = 0
    if headers is not None:
        count += 1 + len(headers)
        for name, values in headers.items():
            texts = (values,) if isinstance(values, str) else values
            count += name.count(":") + sum(text.count(":") for text in texts)
    if msg_id is not None:
        count += 1 + msg_id.count(":")
    if expect is not None:
        said = (expect.stream, expect.last_seq, expect.last_subject_seq, expect.last_msg_id)
        there = [each for each in said if each is not None]
        count += 1 + len(there) + sum(each.count(":") for each in there if isinstance(each, str))
    return count


def repeats_a_member(text: bytes | str) -> bool:
    """Return True if an object in JSON repeats a member: a message, a message of an array, or
    nested.

    The member `data` is not scanned, because it is passed on unchanged. Raises RecursionError for
    deep nesting, ValueError if the JSON is invalid.
    """
    found = json.loads(text, object_pairs_hook=_once, parse_int=len, parse_float=len)
    return any(map(_has_repeats, found if isinstance(found, list) else [found]))


def _once(pairs: list[tuple[str, Any]]) -> "dict[str, Any] | _Repeats":
    found = dict(pairs)
    return found if len(found) == len(pairs) else _REPEATS


def _has_repeats(message: Any) -> bool:
    if not isinstance(message, dict):
        return message is _REPEATS
    return any(value is _REPEATS for name, value in message.items() if name != "data")
