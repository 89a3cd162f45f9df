"""Subjects and filters: their validity, matching, and the same as SQL.

A filter consists of tokens separated by dots; `*` matches one token, a final `>` one or more.
"""

import re

from pyspark_jetstream.values import InvalidOption

_SPACE = re.compile(r"[\s\x00]")
# Undecodable bytes are lone surrogates after `surrogateescape`.
_ONE = "([^.>]|>[^.])[^.]*"
"""One token that is not `>`."""
_UNTEXTUAL = re.compile("[\0\n \udc80-\udcff]")


def text_of(subject: bytes) -> str:
    """Return a subject as text; a byte that is not UTF-8, or NUL, is a blank and two hex digits.

    No subject contains blanks, so different subjects have different texts.
    """
    text = subject.decode("utf-8", "surrogateescape")
    return _UNTEXTUAL.sub(lambda found: f" {ord(found[0]) & 0xFF:02x}", text)


def checked(filters: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return the filters without those that another one includes. Raises InvalidOption."""
    for filter_ in filters:
        if not is_filter(filter_):
            raise InvalidOption(option, filter_, "subjects such as orders.*.new or orders.>")
    return tuple(
        one
        for one in filters
        if not any(other != one and includes(other, one) for other in filters)
    )


def is_filter(text: str) -> bool:
    """Return True for a subject, with or without wildcards."""
    tokens = text.split(".")
    return all(tokens) and not _SPACE.search(text) and ">" not in tokens[:-1]


def is_name(text: str) -> bool:
    """Return True for a valid name of a stream or a consumer (ADR-6)."""
    return bool(text) and not re.search(r"[\s\x00-\x1f.*>/\\]", text)


def is_literal(filter_: str) -> bool:
    """Return True if a filter has no wildcards, so that it is a subject."""
    return not any(token in ("*", ">") for token in filter_.split("."))


def is_of_the_server(subject: str, api_prefix: str = "") -> bool:
    """Return True for a subject of the server's API or system, which stores no message.

    Of the subjects that begin with `$`, only those of key-value and object stores hold messages.

    Args:
        subject: Without wildcards.
        api_prefix: Prefix of the API, if it does not begin with `$JS`.
    """
    of_api = bool(api_prefix) and f"{subject}.".startswith(f"{api_prefix}.")
    return of_api or (subject.startswith("$") and not subject.startswith(("$KV.", "$O.")))


def includes(wider: str, narrower: str) -> bool:
    """Return True if `wider` matches every subject that `narrower` matches."""
    left, right = wider.split("."), narrower.split(".")
    for place, token in enumerate(left):
        if token == ">":
            return len(right) > place
        if place >= len(right) or right[place] == ">":
            return False
        if token != "*" and token != right[place]:
            return False
    return len(left) == len(right)


def matches(filters: tuple[str, ...], subject: str) -> bool:
    """Return True if any filter matches; no filters match everything."""
    return not filters or any(includes(one, subject) for one in filters)


def apart(one: str, other: str) -> bool:
    """Return True if certainly no subject matches both filters."""
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if ">" in (left, right):
            return False
        if left != right and "*" not in (left, right):
            return True
    left_rest, right_rest = len(one.split(".")), len(other.split("."))
    return left_rest != right_rest


def regex(filter_: str) -> str:
    """Return the regular expression of a filter, valid in Python, PostgreSQL and RE2.

    As in `includes`, and in a purge, `*` does not match the token `>` of a stored subject.
    """
    tokens = filter_.split(".")
    parts = [
        ".+"
        if token == ">" and place == len(tokens) - 1
        else _ONE
        if token == "*"
        else re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", token)
        for place, token in enumerate(tokens)
    ]
    return "^" + r"\.".join(parts) + "$"


def prefix(filter_: str) -> str:
    """Return the common prefix of all matching subjects, with the dot before a wildcard."""
    fixed: list[str] = []
    for token in filter_.split("."):
        if token in ("*", ">"):
            return "".join(one + "." for one in fixed)
        fixed.append(token)
    return filter_


def after_prefix(start: str) -> str:
    """Return the least text, in byte order, after all texts with a prefix that ends in a dot."""
    return start[:-1] + "/"  # the character after the dot


def sql_condition(filters: tuple[str, ...], column: str = "subject") -> str:
    """Return the SQL condition that any of the filters matches, for a column that collates "C".

    Subjects are compared, a filter whose only wildcard is a final `>` is a range, and only other
    filters need a regular expression.
    """
    if not filters:
        return "true"
    literals = [one for one in filters if is_literal(one)]
    terms = [f"{column} in ({', '.join(map(sql_text, literals))})"] if literals else []
    terms += [_wildcard_condition(one, column) for one in filters if not is_literal(one)]
    return "(" + " or ".join(terms) + ")"


def _wildcard_condition(filter_: str, column: str) -> str:
    start = prefix(filter_)
    if filter_ == ">":
        return "true"
    terms = []
    if start:
        terms += [f"{column} >= {sql_text(start)}", f"{column} < {sql_text(after_prefix(start))}"]
    if filter_ != start + ">":
        terms.append(f"{column} ~ {sql_text(regex(filter_))}")
    return "(" + " and ".join(terms) + ")"


def sql_text(text: str) -> str:
    """Return a text as an SQL literal, valid for any content and any session setting."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"
