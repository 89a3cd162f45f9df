"""Positions in a stream: in options and in a checkpoint.

An offset is a JSON object of primitives, one entry for each stream:

    {"v": 1, "streams": {"ORDERS": {"incarnation": 1763800000000000000, "seq": 42}}}

`seq` is the last sequence read, 0 before the first. `snapshot` is present if reading began at
`lastPerSubject`: through that sequence only the last message of each subject is read. `origin` is
present in the end of a batch that does not begin at the end of the previous one, such as the first:
Spark does not store the start of a query, and would ask for it again to repeat the first batch.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_jetstream.values import LARGEST, InvalidOption, rfc3339_ns

VERSION = 1
_STARTS = "earliest, latest, seq:N, time:RFC3339, lastPerSubject"
_ENDS = "latest, seq:N, time:RFC3339"


@dataclass(frozen=True, slots=True)
class Place:
    """A position as an option names it.

    Attributes:
        kind: earliest, latest, seq, time or lastPerSubject.
        value: The sequence, or the time in nanoseconds since the epoch; else 0.
    """

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """The progress of a read in one stream.

    Attributes:
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        seq: The last sequence read.
        snapshot: Through this sequence only the last message of each subject counts; 0 for none.
        origin: Sequence before the batch that ends here; None: the end of the previous batch.
    """

    incarnation: int
    seq: int
    snapshot: int = 0
    origin: int | None = None


Offset = dict[str, Position]
"""The position in each stream."""

Places = dict[str, Place]
"""A place for each stream; the empty name means all others."""


def to_json(offset: Mapping[str, Position]) -> dict[str, Any]:
    """Return the offset as Spark stores it in a checkpoint."""
    streams: dict[str, dict[str, int]] = {}
    for name, position in sorted(offset.items()):
        entry = {"incarnation": position.incarnation, "seq": position.seq}
        if position.snapshot:
            entry["snapshot"] = position.snapshot
        if position.origin is not None:
            entry["origin"] = position.origin
        streams[name] = entry
    return {"v": VERSION, "streams": streams}


def from_json(value: Mapping[str, Any]) -> Offset:
    """Parse the output of `to_json`. Raises ValueError that shows the value."""
    try:
        if value["v"] != VERSION:
            raise ValueError(f"offset of version {value['v']!r}, this release reads {VERSION}")
        return {
            name: Position(
                int(one["incarnation"]),
                int(one["seq"]),
                int(one.get("snapshot", 0)),
                int(one["origin"]) if "origin" in one else None,
            )
            for name, one in value["streams"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an offset of the jetstream format: {value!r}") from error


def starts(option: str, text: str | None, default: str) -> Places:
    """Parse the option `startingPosition`. Raises InvalidOption."""
    return _places(option, text or default, _STARTS)


def ends(option: str, text: str | None, default: str) -> Places:
    """Parse the option `endingPosition` or `asOf`. Raises InvalidOption."""
    return _places(option, text or default, _ENDS)


def place_of(places: Places, stream: str, default: str) -> Place:
    """Return the place of one stream."""
    return places.get(stream) or places.get("") or Place(default)


def _places(option: str, text: str, allowed: str) -> Places:
    if not text.startswith("{"):
        return {"": _place(option, text, allowed)}
    try:
        value = json.loads(text)
    except ValueError:
        raise InvalidOption(option, text, "JSON that names a position for each stream") from None
    if not value:
        raise InvalidOption(option, text, "JSON that names a position for each stream")
    return {name: _place(option, one, allowed) for name, one in value.items()}


def _place(option: str, value: object, allowed: str) -> Place:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return Place("seq", value)
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        if f"{kind}:" not in allowed and not rest:
            words = {word.lower(): word for word in allowed.split(", ")}
            if kind.lower() in words:
                return Place(words[kind.lower()])
        if kind == "seq" and re.fullmatch("[0-9]{1,19}", rest) and int(rest) <= LARGEST:
            return Place("seq", int(rest))
        moment = rfc3339_ns(rest) if kind == "time" else None
        if moment is not None:
            # A time outside 64 bits is before or after every message.
            return Place("time", max(-LARGEST, min(moment, LARGEST - 1)))
    raise InvalidOption(option, value, f"one of {allowed}, or JSON with one of them per stream")
