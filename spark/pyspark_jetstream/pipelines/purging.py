"""Purge of archived messages from streams, after a check that the archive contains them.

The check looks up in the archive every message that is still stored up to the sequence of the
purge. One missing message prevents the purge of this stream.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark_jetstream.pipelines.context import Context, Reader
from pyspark_jetstream.pipelines.declaration import Archive, Purge
from pyspark_jetstream.pipelines.journal import Range, Through
from pyspark_jetstream.pipelines.queries import purge_query
from pyspark_jetstream.queries import connection_of
from pyspark_jetstream.transport.base import Consumer, Transport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_jetstream.nats.settings import Settings


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a stream is not purged, as a sentence for the report."""

    text: str


def purge_settings(archive: Archive) -> "Settings":
    """Return the settings of the NATS connection that purges the streams of an archive.

    Raises DeclarationError if the declaration has no `servers`, InvalidOption if an option is
    invalid.
    """
    settings = connection_of(purge_query(archive).checked()).nats
    assert settings is not None, "checked with the options"
    return settings


def bound(through: Through, purge: Purge, consumers: Sequence[Consumer]) -> int:
    """Return the last sequence that may be purged.

    Args:
        through: Progress of the archive in the stream.
        purge: The rule of the purge.
        consumers: Consumers of the stream; messages that one has not acknowledged stay, if the rule
            requires it.
    """
    last = through.seq - purge.keep
    if purge.wait_for_consumers:
        last = min([last, *(one.ack_floor_stream_seq for one in consumers)])
    return last


def purge_archived(
    archive: Archive,
    context: Context,
    reader: Reader,
    transport: Transport,
    through: dict[str, Through],
    lake: Callable[[str, Range], "DataFrame"],
) -> None:
    """Purge each stream up to its archived position; add refusals and results to the report.

    Args:
        archive: The declaration, with `purge`.
        context: Session and report of the run.
        reader: Reader of the streams.
        transport: Connection to the streams.
        through: Progress of each stream.
        lake: Returns the archived sequences in a range of a stream, as the column `seq`.
    """
    assert archive.purge is not None
    settings = purge_settings(archive)
    for stream, done in through.items():
        head = transport.head(stream)
        last = bound(done, archive.purge, transport.consumers(stream))
        refusal = _refusal(stream, done, head.incarnation, head.first_seq)
        if refusal is None and last >= head.first_seq:
            span = Range(head.incarnation, head.first_seq, last)
            with context.working(f"looking for {stream} in the lake"):
                refusal = _missing(stream, span, reader, lake)
            if refusal is None:
                context.at("verified")
                _purge(settings, stream, last, reader.options.filters, context)
        if refusal is not None:
            context.report.notes.append(f"{stream} was not purged: {refusal.text}")


def _refusal(stream: str, done: Through, incarnation: int, first_seq: int) -> Refusal | None:
    if incarnation != done.incarnation:
        return Refusal("it was deleted and created again since it was archived")
    if first_seq < done.began:
        return Refusal(
            f"the archive began at sequence {done.began}, and those from {first_seq} on are in the "
            "stream only"
        )
    return None


def _missing(
    stream: str, span: Range, reader: Reader, lake: Callable[[str, Range], "DataFrame"]
) -> Refusal | None:
    from pyspark.sql import functions as f

    live = reader.frame({stream: span}, columns="seq")
    missing = live.join(lake(stream, span), "seq", "left_anti")
    count, first = missing.agg(f.count("*"), f.min("seq")).collect()[0]
    if count:
        return Refusal(f"the lake lacks {count} of its messages, the first is sequence {first}")
    return None


def _purge(
    settings: "Settings", stream: str, last: int, filters: tuple[str, ...], context: Context
) -> None:
    from pyspark_jetstream.nats.connection import Connection
    from pyspark_jetstream.nats.requests import Requests

    connection = Connection(settings)
    try:
        requests = Requests(connection)
        subject = f"{settings.api_prefix}.STREAM.PURGE.{stream}"
        purged = 0
        for one in filters or (None,):
            body: dict[str, Any] = {"seq": last + 1} | ({"filter": one} if one else {})
            purged += int(requests.api(subject, body).get("purged", 0))
    finally:
        connection.close()
    context.report.notes.append(f"{stream} was purged through sequence {last}: {purged} messages")
