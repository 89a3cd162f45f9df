"""Members that are there twice in an object of JSON, which are refused (RFC 8259, 4).

Of two our parsers take the last; what judged the request before it came here may have read the
first. To look at each member takes several times as long as to decode a message. But a colon stands
behind every name, and else only in strings: a text that has no more colons than its members and
what they hold has no member twice. Only others are looked at.
"""

import json
import re
from typing import Any

from gateway.models import Expect, HeaderValues

TWICE = "an object has a member twice"
_ESCAPED = re.compile(r"\\u00(?:3[0-9aA]|[4-7])")
_ESCAPED_BYTES = re.compile(_ESCAPED.pattern.encode())


class _Repeats:
    """Stands for an object that has a member twice."""


_REPEATS = _Repeats()


def is_plain(text: bytes) -> bool:
    """Whether no colon and no letter of a name is hidden by an escape."""
    return b"\\" not in text or _ESCAPED_BYTES.search(text) is None


def is_plain_text(text: str) -> bool:
    """As `is_plain`."""
    return "\\" not in text or _ESCAPED.search(text) is None


def colons_beside(headers: HeaderValues | None, msg_id: str | None, expect: Expect | None) -> int:
    """How many colons these members of a message are the reason of."""
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
    """Whether an object has a member twice: a message, one of several, or what is in one; but for
    its `data`, which is passed on as it came. The JSON is valid. Raises RecursionError.
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
