"""Conversion of responses of JetStream's API to the types of transports (no I/O)."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.errors import Refused as ApiRefused
from pyspark_jetstream.nats.raw import Raw, nanoseconds
from pyspark_jetstream.transport.base import RAW_SCHEMA, Consumer, Head
from pyspark_jetstream.transport.errors import JetStreamError, Refused, StreamNotFound
from pyspark_jetstream.units import NANOS_PER_SECOND

STREAM_NOT_FOUND = 10059
EMPTY = pa.RecordBatch.from_pylist([], RAW_SCHEMA)
_DENSE = 16
"""Largest gap between sequences that are still read as one range."""


def head_of(stream: str, info: dict[str, Any]) -> Head:
    """Return the state of a stream from a STREAM.INFO response.

    An empty stream has a `first_seq` of `last_seq + 1`.
    """
    state = info["state"]
    last_seq = int(state["last_seq"])
    messages = int(state["messages"])
    return Head(
        stream=stream,
        incarnation=nanoseconds(info["created"]),
        first_seq=int(state["first_seq"]) if messages else last_seq + 1,
        last_seq=last_seq,
        messages=messages,
        bytes=int(state["bytes"]),
        last_ts=nanoseconds(state["last_ts"]),
    )


def rows_of(raw: Raw | None) -> pa.RecordBatch:
    """Return messages as a batch of `RAW_SCHEMA`; an empty batch for None."""
    return EMPTY if raw is None else pa.RecordBatch.from_arrays(raw.arrays, schema=RAW_SCHEMA)


def consumer_of(info: dict[str, Any], last_seq: int) -> Consumer:
    """Return the state of a consumer from an entry of a CONSUMER.LIST response.

    Args:
        info: The entry.
        last_seq: The last sequence of the stream.
    """
    return Consumer(
        name=str(info["name"]),
        last_seq=last_seq,
        delivered_stream_seq=int(info["delivered"]["stream_seq"]),
        ack_floor_stream_seq=int(info["ack_floor"]["stream_seq"]),
        num_ack_pending=int(info["num_ack_pending"]),
        num_redelivered=int(info["num_redelivered"]),
        num_pending=int(info["num_pending"]),
    )


def rfc3339(ns: int) -> str:
    """Format a time in nanoseconds since the epoch for JetStream's API (RFC 3339, UTC)."""
    seconds, rest = divmod(ns, NANOS_PER_SECOND)
    moment = datetime.fromtimestamp(seconds, timezone.utc)  # noqa: UP017  (Python 3.10)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def runs(seqs: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of ascending sequences whose gaps are at most 16."""
    run: list[int] = []
    for seq in seqs:
        if run and seq - run[-1] > _DENSE:
            yield run
            run = []
        run.append(seq)
    if run:
        yield run


def translated(error: NatsError, stream: str, where: str) -> JetStreamError:
    """Convert an exception of the NATS client to one of the format `jetstream`.

    Args:
        error: The exception.
        stream: Name of the stream.
        where: Address of the server, for the message.
    """
    if isinstance(error, ApiRefused):
        if error.err_code == STREAM_NOT_FOUND:
            return _not_found(stream, where)
        return Refused(error.code, error.err_code, f"stream {stream!r}: {error.description}")
    return JetStreamError(f"stream {stream!r}: {error}")


def _not_found(stream: str, where: str) -> JetStreamError:
    return StreamNotFound(stream, f"at {where}")
