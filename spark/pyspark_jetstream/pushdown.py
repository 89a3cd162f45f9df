"""Evaluation of conditions of a batch query in the reader, with the option `pushdown=true`.

Conditions on sequences, streams and subjects are evaluated exactly, so Spark need not evaluate
them. Conditions on times only reduce the range of sequences; Spark evaluates them again on the
remaining rows, in microseconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark_jetstream import subjects

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The part of the streams that a batch query must read, after some conditions are applied.

    Attributes:
        streams: Names of the streams to read.
        first, last: Range of sequences, inclusive.
        begin, end: Range of times in nanoseconds since the epoch: from `begin`, before `end`.
        filters: Subjects to read; empty for all, None if no subject can match.
    """

    streams: tuple[str, ...]
    filters: tuple[str, ...] | None
    first: int = 0
    last: int = _LAST
    begin: int = 0
    end: int = _LAST


def narrow(what: Narrowed, filters: Iterable[Any]) -> tuple[Narrowed, list[Any]]:
    """Apply PySpark's filters to a read; return the reduced read and the filters left to Spark.

    Args:
        `what`: The read before the filters.
        filters: Instances of classes in `pyspark.sql.datasource`, recognised by class name.
    """
    rest = []
    for one in filters:
        narrowed = _apply(what, type(one).__name__, one)
        if narrowed is None:
            rest.append(one)
            continue
        what, exact = narrowed
        if not exact:
            rest.append(one)
    return what, rest


def _apply(what: Narrowed, kind: str, one: Any) -> tuple[Narrowed, bool] | None:
    """Apply one filter; return the reduced read, and True if Spark need not evaluate the filter.

    Returns None for a filter that the reader cannot evaluate.
    """
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    if len(attribute) != 1:
        return None
    column: str = attribute[0]
    value: Any = getattr(one, "value", None)
    if column not in ("stream", "subject", "seq", "timestamp", "timestamp_ns"):
        return None
    if kind == "IsNotNull":
        return what, True  # none of these columns is ever null
    values = list(value) if kind == "In" else [value]
    if kind == "EqualNullSafe":
        kind = "EqualTo"
    if any(one is None for one in values):
        return None
    if column == "seq" and all(isinstance(one, int) for one in values):
        return _by_sequence(what, kind, values)
    if column == "stream" and kind in ("EqualTo", "In"):
        return replace(what, streams=tuple(one for one in what.streams if one in values)), True
    if column == "subject":
        return _by_subject(what, kind, values)
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        micros = (value - _EPOCH) // (_EPOCH.resolution)
        return _by_time(what, kind, micros * 1000, 1000)
    if column == "timestamp_ns" and isinstance(value, int):
        return _by_time(what, kind, value, 1)
    return None


def _by_sequence(what: Narrowed, kind: str, values: list[int]) -> tuple[Narrowed, bool] | None:
    value = values[0] if values else 0
    match kind:
        case "EqualTo":
            low, high = value, value
        case "In" if values:
            low, high = min(values), max(values)
        case "GreaterThan":
            low, high = value + 1, _LAST
        case "GreaterThanOrEqual":
            low, high = value, _LAST
        case "LessThan":
            low, high = -1, value - 1
        case "LessThanOrEqual":
            low, high = -1, value
        case _:
            return None
    exact = kind != "In" or len(set(values)) == 1
    return replace(what, first=max(what.first, low), last=min(what.last, high)), exact


def _by_time(what: Narrowed, kind: str, begin: int, length: int) -> tuple[Narrowed, bool] | None:
    """Reduce the read by a value of time that stands for `length` nanoseconds from `begin`."""
    match kind:
        case "EqualTo":
            low, high = begin, begin + length
        case "GreaterThan":
            low, high = begin + length, _LAST
        case "GreaterThanOrEqual":
            low, high = begin, _LAST
        case "LessThan":
            low, high = 0, begin
        case "LessThanOrEqual":
            low, high = 0, begin + length
        case _:
            return None
    return replace(what, begin=max(what.begin, low), end=min(what.end, high)), False


def _by_subject(what: Narrowed, kind: str, values: list[Any]) -> tuple[Narrowed, bool] | None:
    if kind in ("EqualTo", "In"):
        # A text with wildcards, or one that is no subject, must not act as a filter.
        if not all(subjects.is_filter(one) and subjects.is_literal(one) for one in values):
            return None
        return _with_filters(what, tuple(dict.fromkeys(values))), True
    if kind == "StringStartsWith" and values[0].endswith("."):
        wanted = values[0] + ">"
        start = values[0][:-1]
        if subjects.is_filter(start) and subjects.is_literal(start):
            known = what.filters
            if not known or all(
                subjects.includes(wanted, one)
                or subjects.includes(one, wanted)
                or subjects.apart(one, wanted)
                for one in known
            ):
                return _with_filters(what, (wanted,)), True
    return None


def _with_filters(what: Narrowed, wanted: tuple[str, ...]) -> Narrowed:
    """Intersect the filters of the read with `wanted`; each two are nested or disjoint."""
    if what.filters is None:
        return what
    both: list[str] = []
    for one in what.filters or (">",):
        both += [other for other in wanted if subjects.includes(one, other)]
        both += [one for other in wanted if one != other and subjects.includes(other, one)]
    return replace(what, filters=tuple(dict.fromkeys(both)) or None)
