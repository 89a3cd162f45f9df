"""Positions in a stream: in options and in Spark's checkpoints.

An offset of a checkpoint is a JSON object with one entry for each stream:

    {"v": 1, "streams": {"ORDERS": {"incarnation": 1763800000000000000, "seq": 42}}}

`incarnation` is the creation time of the stream in nanoseconds. `seq` is the last sequence read, 0
before the first. `snapshot` is present if reading began at `lastPerSubject`: up to that sequence
only the last message of each subject is read. `origin` is present if a batch does not begin at the
end of the previous one, as the first batch of a query. Without it, Spark could not repeat the first
batch, because Spark does not store the start of a query.
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
    """A position as an option names it, before it is resolved to a sequence.

    Attributes:
        kind: `earliest`, `latest`, `seq`, `time` or `lastPerSubject`.
        value: The sequence for `seq`, nanoseconds since the epoch for `time`; else 0.
    """

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """The progress of a read in one stream.

    Attributes:
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        seq: The last sequence read; 0 before the first.
        snapshot: Up to this sequence only the last message of each subject is read; 0: all are
            read.
        origin: The sequence after which this batch begins; None if it begins after the end of the
            previous batch.
    """

    incarnation: int
    seq: int
    snapshot: int = 0
    origin: int | None = None


Offset = dict[str, Position]
"""The progress of a query: name of the stream to its position."""

Places = dict[str, Place]
"""The value of an option: position by name of the stream; "" stands for all other streams."""


def to_json(offset: Mapping[str, Position]) -> dict[str, Any]:
    """Return the offset as the JSON object that Spark stores in a checkpoint."""
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
    """Parse the JSON object of an offset, which Spark has read from a checkpoint.

    Raises ValueError, with the value in the message, if its format or version is unknown.
    """
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
    """Parse the option `startingPosition`; use `default` if it is not set.

    Raises InvalidOption if the text is not a position, or not JSON of positions by stream.
    """
    return _places(option, text or default, _STARTS)


def ends(option: str, text: str | None, default: str) -> Places:
    """Parse the option `endingPosition` or `asOf`; use `default` if it is not set.

    Raises InvalidOption if the text is not a position, or not JSON of positions by stream.
    """
    return _places(option, text or default, _ENDS)


def place_of(places: Places, stream: str, default: str) -> Place:
    """Return the position that the value of an option names for one stream.

    It is the entry of the stream, else the entry "" for all other streams, else a position of the
    kind `default`.
    """
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
