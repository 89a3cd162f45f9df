"""Validation, matching and comparison of subjects and filters.

A subject is one or more tokens joined by `.`. In a *filter*, the token `*` stands for exactly one
token and a last token `>` for one or more; a *literal* contains neither. `foo*` and `fo>o` are
ordinary tokens. All functions take and return `bytes`, as on the wire, and are case-sensitive.
"""

import re
from collections.abc import Callable, Sequence

_BLANKS = re.compile(rb"[ \t\n\r\f]")


def is_valid_filter(subject: bytes) -> bool:
    """Return whether `subject` is a valid filter: no empty token, no blank, `>` only at the end."""
    if not subject or _BLANKS.search(subject):
        return False
    parts = subject.split(b".")
    return b"" not in parts and b">" not in parts[:-1]


def can_subscribe(subject: bytes) -> bool:
    """Return whether a client may subscribe to `subject`, an argument of a SUB line.

    It must have no empty token, and `>` only at the end. Unlike in `is_valid_filter`, which is for
    subjects in configurations, a form feed or a lone CR inside a token is allowed, as in
    nats-server.
    """
    parts = subject.split(b".")
    return b"" not in parts and b">" not in parts[:-1]


def can_publish(subject: bytes) -> bool:
    """Return whether a client in pedantic mode may publish to `subject`.

    It must be valid for `can_subscribe` and have no wildcards.
    """
    return can_subscribe(subject) and not has_wildcard(subject)


def is_valid_literal(subject: bytes) -> bool:
    """Return whether messages may have `subject`: a valid filter without wildcards."""
    return is_valid_filter(subject) and not has_wildcard(subject)


def has_wildcard(subject: bytes) -> bool:
    """Return whether a token of the subject is the wildcard `*` or, at the end, `>`."""
    if b"*" not in subject and b">" not in subject:
        return False
    parts = subject.split(b".")
    return b"*" in parts or parts[-1] == b">"


def fixed_prefix(subject: bytes) -> bytes:
    """Return the part of a filter before its first wildcard token, including the dot before it.

    A subject without wildcards is returned as a whole.
    """
    position = 0
    for part in subject.split(b"."):
        if part == b"*" or part == b">":
            return subject[:position]
        position += len(part) + 1
    return subject


def matches(subject: bytes, pattern: bytes) -> bool:
    """Return whether the filter `pattern` matches a subject without wildcards.

    A subject with an empty token matches no filter with wildcards.
    """
    if b"*" not in pattern and b">" not in pattern:
        return subject == pattern
    have = subject.split(b".")
    if b"" in have:
        return False
    want = pattern.split(b".")
    if want[-1] == b">":
        if len(have) < len(want):
            return False
        want.pop()
    elif len(have) != len(want):
        return False
    # not strict: a trailing `>` was removed and matches the rest of the subject
    return all(w == b"*" or w == h for w, h in zip(want, have, strict=False))


def is_subset(inner: bytes, outer: bytes) -> bool:
    """Return whether the filter `outer` matches every subject that the filter `inner` matches."""
    have, want = inner.split(b"."), outer.split(b".")
    for position, token in enumerate(want):
        if position >= len(have):
            return False
        if token == b">":
            return True
        if have[position] == b">" or (token != b"*" and token != have[position]):
            return False
    return len(have) == len(want)


def overlap(one: bytes, other: bytes) -> bool:
    """Return whether there is a subject that both filters match."""
    if one == other:
        return True
    left, right = one.split(b"."), other.split(b".")
    for a, b in zip(left, right, strict=False):
        if a == b">" or b == b">":
            return True
        if a != b and a != b"*" and b != b"*":
            return False
    return len(left) == len(right)


def compile_filters(filters: Sequence[bytes]) -> Callable[[bytes], bool] | None:
    """Return a fast function whose result is True for subjects that match any of the filters.

    None if every subject matches: there is no filter, or one is `>`. The function expects valid
    subjects without wildcards, as stored subjects are. It is a set lookup if no filter has
    wildcards, one `startswith` if all have the form `prefix.>`, and otherwise one regular
    expression.
    """
    if not filters or b">" in filters:
        return None
    literals = frozenset(f for f in filters if not has_wildcard(f))
    wild = [f for f in filters if f not in literals]
    if not wild:
        if len(literals) == 1:
            return next(iter(literals)).__eq__
        return literals.__contains__
    if not literals and all(_is_prefix(f) for f in wild):
        prefixes = tuple(f[:-1] for f in wild)
        head: bytes | tuple[bytes, ...] = prefixes[0] if len(prefixes) == 1 else prefixes
        return lambda subject: subject.startswith(head)
    match = re.compile(b"|".join(map(_expression, filters)), re.DOTALL).fullmatch
    return lambda subject: match(subject) is not None


def compile_reading(filters: Sequence[bytes]) -> Callable[[bytes], bool] | None:
    """Return a function like `compile_filters`, for reading or purging a stream in sequence.

    With a single filter, its `*` does not match a token `>` in a stored subject. nats-server
    behaves so in purges, and in sequential reads from file storage. Subscriptions, several filters
    and searches for last messages follow `compile_filters`.
    """
    if len(filters) != 1 or b"*" not in filters[0].split(b"."):
        return compile_filters(filters)
    match = re.compile(_covering_expression(filters[0]), re.DOTALL).fullmatch
    return lambda subject: match(subject) is not None


def _is_prefix(pattern: bytes) -> bool:
    return pattern.endswith(b".>") and not has_wildcard(pattern[:-2])


def _expression(pattern: bytes) -> bytes:
    special = {b"*": rb"[^.]+", b">": rb".+"}
    return rb"\.".join(special.get(token) or re.escape(token) for token in pattern.split(b"."))


def _covering_expression(pattern: bytes) -> bytes:
    special = {b"*": rb"(?!>\.)[^.]+", b">": rb".+"}
    *tokens, last = pattern.split(b".")
    parts = [special.get(token) or re.escape(token) for token in tokens]
    parts.append(rb"(?!>\Z)[^.]+" if last == b"*" else special.get(last) or re.escape(last))
    return rb"\.".join(parts)
