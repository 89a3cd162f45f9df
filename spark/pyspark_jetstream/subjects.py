"""Subjects and filter subjects: validation, matching, and SQL conditions.

A filter consists of tokens separated by dots; `*` matches one token, a final `>` one or more.
"""

import re

from pyspark_jetstream.values import InvalidOption

_SPACE = re.compile(r"[\s\x00]")
# After decoding with `surrogateescape`, bytes that are not UTF-8 are lone surrogates.
_ONE = "([^.>]|>[^.])[^.]*"
"""Pattern of one token other than `>`."""
_UNTEXTUAL = re.compile("[\0\n \udc80-\udcff]")


def text_of(subject: bytes) -> str:
    """Convert a subject to text.

    A byte that is not UTF-8, or NUL, becomes a blank and two hexadecimal digits. No subject
    contains a blank, so different subjects have different texts.
    """
    text = subject.decode("utf-8", "surrogateescape")
    return _UNTEXTUAL.sub(lambda found: f" {ord(found[0]) & 0xFF:02x}", text)


def checked(filters: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return the filters without those that another filter includes.

    Raises InvalidOption for `option` if one is not a valid filter.
    """
    for filter_ in filters:
        if not is_filter(filter_):
            raise InvalidOption(option, filter_, "subjects such as orders.*.new or orders.>")
    return tuple(
        one
        for one in filters
        if not any(other != one and includes(other, one) for other in filters)
    )


def is_filter(text: str) -> bool:
    """Return True if `text` is a valid subject, with or without wildcards."""
    tokens = text.split(".")
    return all(tokens) and not _SPACE.search(text) and ">" not in tokens[:-1]


def is_name(text: str) -> bool:
    """Return True if `text` is a valid name of a stream or a consumer (ADR-6)."""
    return bool(text) and not re.search(r"[\s\x00-\x1f.*>/\\]", text)


def is_literal(filter_: str) -> bool:
    """Return True if a valid filter has no wildcard."""
    return not any(token in ("*", ">") for token in filter_.split("."))


def is_of_the_server(subject: str, api_prefix: str = "") -> bool:
    """Return True if a subject belongs to the server (`$JS...`, `$SYS...`), so no stream stores it.

    Every subject that begins with `$` counts, except those of key-value and object stores.

    Args:
        subject: A subject without wildcards.
        api_prefix: Prefix of the JetStream API if it is not `$JS.API`; empty otherwise.
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
    """Return True if any of the filters matches the subject; without filters, always."""
    return not filters or any(includes(one, subject) for one in filters)


def apart(one: str, other: str) -> bool:
    """Return True only if no subject matches both filters; False if unsure."""
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if ">" in (left, right):
            return False
        if left != right and "*" not in (left, right):
            return True
    left_rest, right_rest = len(one.split(".")), len(other.split("."))
    return left_rest != right_rest


def regex(filter_: str) -> str:
    """Return a filter as a regular expression, valid in Python, PostgreSQL and RE2.

    As in `includes` and in a purge, `*` does not match the token `>` of a stored subject.
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
    """Return the common prefix of all subjects that a filter matches.

    It ends with the dot before the first wildcard. For a filter without wildcards, it is the whole
    subject.
    """
    fixed: list[str] = []
    for token in filter_.split("."):
        if token in ("*", ">"):
            return "".join(one + "." for one in fixed)
        fixed.append(token)
    return filter_


def after_prefix(start: str) -> str:
    """Return the upper bound of the texts that begin with `start`, in byte order; exclusive.

    `start` ends in a dot.
    """
    return start[:-1] + "/"  # the character after the dot


def sql_condition(filters: tuple[str, ...], column: str = "subject") -> str:
    """Return the SQL condition that any of the filters matches a column.

    The condition uses comparisons where possible: equality for subjects, a range for a filter whose
    only wildcard is a final `>`. Other filters need a regular expression.

    Args:
        filters: Subjects with or without wildcards; empty gives `true`.
        column: Name of the column, which must have the collation "C".
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
    """Quote a text as an SQL literal that is valid for any content and any session setting."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"
