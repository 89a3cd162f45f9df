"""The Spark queries that a pipeline runs, each with the options that the pipeline sets itself."""

import json
from collections.abc import Iterator

from pyspark_jetstream.ddl import json_type
from pyspark_jetstream.options import checked_dsn
from pyspark_jetstream.pipelines.declaration import (
    Analytics,
    Archive,
    Bucket,
    Materialize,
    Pipeline,
    Replay,
    Source,
    Table,
    Target,
    Transform,
)
from pyspark_jetstream.pipelines.fields import DeclarationError, delay
from pyspark_jetstream.pipelines.publishing import TRANSACTIONAL, sink_options
from pyspark_jetstream.positions import place_of, starts
from pyspark_jetstream.queries import READ, READ_STREAM, WRITE, WRITE_STREAM, Query
from pyspark_jetstream.values import InvalidOption, Secret

STARTS = ("earliest", "latest", "seq", "time")
_EXPECTED = "earliest, latest, seq:N or time:RFC3339"


def queries(one: Pipeline) -> Iterator[Query]:
    """Yield the queries of a pipeline in execution order.

    Raises DeclarationError or InvalidOption if a field that becomes an option is invalid.
    """
    match one:
        case Archive():
            yield log_query(one.source)
            if one.purge is not None:
                yield purge_query(one)
        case Replay():
            if isinstance(one.source, Source):
                yield log_query(one.source)
            yield write_query(one.target, one.name)
        case Materialize():
            yield log_query(one.source, one.json)
            if isinstance(one.target, Table):
                check_table(one.target)
            if isinstance(one.target, Bucket):
                yield write_query(bucket_target(one.target), one.name)
        case Transform():
            if one.watermark is not None:
                delay(one.watermark[1])
            yield transform_query(one)
            if isinstance(one.target, Target):
                yield write_query(one.target, one.name, streaming=True)
        case Analytics():
            yield log_query(one.source)
            if one.events:
                yield events_query(one)


def check(one: Pipeline) -> None:
    """Check the options of every query of a pipeline, without Spark.

    Raises InvalidOption or DeclarationError for the first invalid one.
    """
    for query in queries(one):
        query.checked()


def log_query(source: Source, kind: str = "") -> Query:
    """Return the query that reads ranges of a source's streams, batch by batch.

    Raises DeclarationError if `source.start` is not earliest, latest, a sequence or a time.

    Args:
        source: The streams and their options.
        kind: DDL type of JSON payloads; "" for binary payloads.
    """
    place = place_of(starts("startingPosition", source.start, "earliest"), "", "none")
    if place.kind not in STARTS:
        raise DeclarationError("source.startingPosition", f"is {source.start!r}", _EXPECTED)
    named = {"stream": json.dumps(list(source.streams)), "startingPosition": source.start}
    return Query(READ, {**source.options, **named, **json_options(kind)})


def transform_query(declared: Transform) -> Query:
    """Return the streaming query that a transformation's SQL reads as the view `input`."""
    source = declared.source
    named = {"stream": json.dumps(list(source.streams)), "startingPosition": source.start}
    return Query(READ_STREAM, {**source.options, **named, **json_options(declared.json)})


def check_table(target: Table) -> None:
    """Check the connection string of a target table.

    A string in an environment variable or a file is not checked. Raises DeclarationError if the
    string is not a connection string of PostgreSQL.
    """
    secret = Secret("target.dsn", target.dsn)
    if not secret.is_elsewhere:
        try:
            checked_dsn(secret)
        except InvalidOption as error:
            raise DeclarationError("target.dsn", "is set", error.expected) from None


def events_query(declared: Analytics) -> Query:
    """Return the query that reads the stream of advisories and metrics (`$JS.EVENT.>`)."""
    named = {"stream": json.dumps([declared.events]), "payload": "string"}
    return Query(READ, {**declared.source.options, **named})


def write_query(target: Target, app: str, *, streaming: bool = False) -> Query:
    """Return the query that writes to the target stream of a pipeline.

    Args:
        target: The stream and its options.
        app: Name of the pipeline.
        streaming: True for a streaming query.
    """
    options = sink_options(target.stream, target.options, target.delivery, app)
    if streaming or target.delivery != TRANSACTIONAL:
        return Query(WRITE_STREAM if streaming else WRITE, options)
    # A placeholder: each batch has its own number
    return Query(WRITE, {**options, "txnVersion": "0"})


def purge_query(archive: Archive) -> Query:
    """Return a query with the options of the NATS connection that purges an archive's streams.

    The query itself never runs. Raises DeclarationError if the declaration has no `servers`.
    """
    assert archive.purge is not None, "there is something to purge"
    options = archive.purge.options or archive.source.options
    if not any(name.lower() == "servers" for name in options):
        raise DeclarationError("purge.options.servers", "is missing", "the NATS servers that purge")
    named = {"transport": "nats", "stream": json.dumps(list(archive.source.streams))}
    return Query(READ, {**options, **named})


def bucket_target(bucket: Bucket) -> Target:
    """Return the stream `KV_...` of a key-value bucket as a target."""
    return Target(f"KV_{bucket.bucket}", bucket.options, bucket.delivery)


def json_options(kind: str) -> dict[str, str]:
    """Return the options that read JSON payloads of a type; {} if the type is empty.

    Raises InvalidOption for the field `json` if the type is not valid DDL.
    """
    if not kind:
        return {}
    json_type("json", kind)
    return {"payload": "json", "jsonSchema": kind}
