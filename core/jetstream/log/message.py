"""The tuple that represents one stored message, and conversions from segments.

A segment (`core.model.segment`) holds many messages, one list per column.
"""

from __future__ import annotations

from collections.abc import Callable

from core.model.segment import Segment

Match = Callable[[bytes], bool]
"""Predicate over a subject: True if the subject matches the filters."""

Message = tuple[int, int, bytes, bytes, bytes]
"""(sequence, nanoseconds since the Unix epoch, subject, header block (empty: none), payload)."""


def message_at(segment: Segment, index: int) -> Message:
    """Return the message at index `index` of a segment (messages as columns)."""
    headers = segment.headers[index] if segment.headers is not None else None
    return (
        segment.seqs[index],
        segment.times[index],
        segment.subjects[index],
        headers or b"",
        segment.payloads[index],
    )


def messages_of(segment: Segment | None) -> list[Message]:
    """Return all messages of a segment (messages as columns); an empty list for None."""
    if segment is None:
        return []
    return [message_at(segment, place) for place in range(len(segment))]


def select(segment: Segment, places: list[int]) -> Segment | None:
    """Return a part of a segment: the messages at the indices `places`; None: no index."""
    if len(places) == len(segment):
        return segment
    if not places:
        return None
    headers = segment.headers
    payloads = [segment.payloads[i] for i in places]
    return Segment(
        [segment.seqs[i] for i in places],
        [segment.times[i] for i in places],
        [segment.subjects[i] for i in places],
        None if headers is None else [headers[i] for i in places],
        payloads,
        sum(map(len, payloads)),
    )
