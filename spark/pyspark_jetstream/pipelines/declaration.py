"""Declarations of pipelines as dataclasses, checked before Spark starts.

Each kind of pipeline is a frozen dataclass; `pipeline` creates one from a mapping in YAML. A Python
file may use the classes directly; `README.md` shows both.
"""

import re
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark_jetstream.pipelines.fields import DeclarationError, Fields, shown
from pyspark_jetstream.pipelines.publishing import DELIVERIES, OWN, TRANSACTIONAL

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NAMED = "a name of up to 64 letters, digits, _ and -, beginning with a letter or digit"
_STREAM = re.compile(r"[^\s.*>/\\,]+")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}")
_OURS = ("stream", "startingPosition", "endingPosition", "columns", "asOf", "mode", "payload")
"""Options of the format that a pipeline sets itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """The streams that a pipeline reads.

    Attributes:
        streams: Names of the streams.
        options: Options of `format("jetstream")`: connection, filters, limits of partitions.
        start: Start of a pipeline that has not run yet, with the values of `startingPosition`.
        recreated: Reaction to a stream that was deleted and created again: `fail`, or `restart`
            with the first message of the new stream.
    """

    streams: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict, repr=False)
    start: str = "earliest"
    recreated: str = "fail"

    @property
    def may_lose(self) -> bool:
        """True if the run continues after messages were removed unread (`failOnDataLoss=false`)."""
        given = {name.lower(): value.lower() for name, value in self.options.items()}
        return given.get("failondataloss") == "false"

    @classmethod
    def read(cls, fields: Fields, one: bool = False) -> "Source":
        """Parse the mapping `source` of a declaration.

        Raises DeclarationError if a field is invalid or unknown.

        Args:
            fields: The mapping.
            one: True if the source must have exactly one stream.
        """
        expected = "the name of a stream" if one else "the name of a stream, or a list of names"
        streams = fields.texts("stream", expected)
        if not streams or (one and len(streams) > 1):
            raise fields.wrong("stream", expected)
        if not all(_STREAM.fullmatch(name) for name in streams):
            raise fields.wrong("stream", "names of streams")
        start = fields.text("startingPosition", "earliest")
        recreated = fields.choice("recreated", ("fail", "restart"), "fail")
        options = fields.options("options", _OURS)
        fields.end()
        return cls(streams, options, start, recreated)


@dataclass(frozen=True, slots=True)
class Target:
    """The stream that a pipeline writes to.

    Attributes:
        stream: Name of the stream, which must exist.
        options: Options of `format("jetstream")` for writing: servers, credentials.
        delivery: `transactional`: each row exactly once, needs jetgate; `at-least-once`: message
            ids, by which the server removes duplicates within its deduplication window.
    """

    stream: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    delivery: str = TRANSACTIONAL

    @classmethod
    def read(cls, fields: Fields) -> "Target":
        """Parse the mapping `target` of a declaration.

        Raises DeclarationError if a field is invalid or unknown.
        """
        stream = fields.text("stream", expected="the name of a stream")
        if not _STREAM.fullmatch(stream):
            raise fields.wrong("stream", "the name of a stream")
        delivery = fields.choice("delivery", DELIVERIES, TRANSACTIONAL)
        options = fields.options("options", OWN)
        fields.end()
        return cls(stream, options, delivery)


@dataclass(frozen=True, slots=True)
class Limits:
    """Size and interval of the batches of a pipeline.

    Attributes:
        messages: Largest number of messages of one batch.
        every: Seconds between batches; None: read the messages stored now, then end.
    """

    messages: int = 1_000_000
    every: float | None = None

    @classmethod
    def read(cls, fields: Fields) -> "Limits":
        """Parse the fields `batch` and `every` of a declaration; defaults are 1,000,000 and None.

        Raises DeclarationError if one is invalid.
        """
        messages = fields.integer("batch", cls().messages, least=1)
        return cls(messages or cls().messages, fields.duration("every", None))


@dataclass(frozen=True, slots=True)
class Purge:
    """The rule by which an archive pipeline purges archived messages from their stream.

    Attributes:
        keep: Number of the last archived sequences that stay in the stream.
        wait_for_consumers: True to keep messages that a consumer has not acknowledged.
        options: Options of `format("jetstream")` for the connection to NATS; empty for those of the
            source.
    """

    keep: int = 0
    wait_for_consumers: bool = True
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, fields: Fields) -> "Purge":
        """Parse the mapping `purge` of a declaration.

        Raises DeclarationError if a field is invalid or unknown.
        """
        keep = fields.integer("keep", 0)
        wait = fields.flag("waitForConsumers", True)
        options = fields.options("options")
        fields.end()
        return cls(keep or 0, wait, options)


@dataclass(frozen=True, slots=True)
class Archive:
    """A pipeline that writes streams to Parquet, Delta or Iceberg, each message exactly once.

    Rows are partitioned by day and stream.

    Attributes:
        name: Name of the pipeline and key of its progress; another name archives everything again.
        source: The streams to read.
        path: Directory or address of the files; for `delta` and `iceberg` that of the progress.
        format: `parquet`, `delta` or `iceberg`.
        table: The table in Spark's catalog, for `delta` and `iceberg`; else empty.
        compression: Codec of Parquet.
        limits: Size and interval of batches.
        purge: Rule of the removal from the streams after archiving; None: no removal.
    """

    kind: ClassVar[str] = "archive"
    name: str
    source: Source
    path: str
    format: str = "parquet"
    table: str = ""
    compression: str = "zstd"
    limits: Limits = Limits()
    purge: Purge | None = None

    @classmethod
    def read(cls, name: str, fields: Fields) -> "Archive":
        """Parse the declaration of an archive.

        Raises DeclarationError if a field is missing or invalid.
        """
        source = Source.read(fields.inner("source"))
        target = fields.inner("target")
        path = target.text("path", expected="a directory, or an address such as s3://bucket/lake")
        format = target.choice("format", ("parquet", "delta", "iceberg"), "parquet")
        codecs = ("zstd", "snappy", "gzip", "none")
        compression = target.choice("compression", codecs, "zstd")
        table = target.text("table", "")
        if (format == "parquet") == bool(table) or (table and not _COLUMN.fullmatch(table)):
            raise target.wrong("table", "a table such as db.messages, exactly if not parquet")
        target.end()
        purge = Purge.read(fields.inner("purge")) if fields.has("purge") else None
        limits = Limits.read(fields)
        return cls(name, source, path, format, table, compression, limits, purge)


@dataclass(frozen=True, slots=True)
class Lake:
    """The archived messages of one stream, as the source of a replay.

    Attributes:
        path: Directory or address of the archive.
        stream: Name of the stream.
        incarnation: Creation time of the stream in nanoseconds since the epoch, needed if the
            archive contains several streams of this name; 0 if there is only one.
    """

    path: str
    stream: str
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """A pipeline that publishes archived messages, or a range of a stream, to a stream.

    It keeps their order, and their original pace if `speed` is set.

    Attributes:
        name: Name of the pipeline, key of its progress, and application of its transactions.
        source: An archive or one stream.
        target: The stream to write to.
        checkpoint: Directory or address of the progress.
        first, last: Range of sequences, inclusive; None: the first or last of the source.
        speed: 1 for the original pace, 10 for ten times as fast; None: without waiting.
        window: Seconds of the source's time whose messages are published together.
        subject: SQL expression of the new subject; empty: unchanged subjects.
        limits: Size of batches.
    """

    kind: ClassVar[str] = "replay"
    name: str
    source: Source | Lake
    target: Target
    checkpoint: str
    first: int | None = None
    last: int | None = None
    speed: float | None = None
    window: float = 1.0
    subject: str = ""
    limits: Limits = Limits()

    @classmethod
    def read(cls, name: str, fields: Fields) -> "Replay":
        """Parse the declaration of a replay.

        Raises DeclarationError if a field is missing or invalid.
        """
        inner = fields.inner("source")
        source: Source | Lake
        if inner.has("path"):
            path = inner.text("path")
            stream = inner.text("stream", expected="the stream's name")
            source = Lake(path, stream, inner.integer("incarnation", 0) or 0)
            inner.end()
        else:
            source = Source.read(inner, one=True)
        target = Target.read(fields.inner("target"))
        checkpoint = _checkpoint(fields)
        first = fields.integer("first", None, least=1)
        last = fields.integer("last", None, least=first or 1)
        speed = fields.number("speed", 0.0) if fields.has("speed") else None
        window = fields.duration("window", 1.0) or 1.0
        subject = fields.text("subject", "")
        messages = fields.integer("batch", 100_000, least=1) or 1
        limits = Limits(messages)
        return cls(name, source, target, checkpoint, first, last, speed, window, subject, limits)


@dataclass(frozen=True, slots=True)
class Table:
    """A PostgreSQL table as a target, with one row for the latest message of each subject.

    Attributes:
        dsn: Connection string, or `env:NAME`, `file:PATH`.
        table: Name of the table, with or without a schema; a missing table is created.
    """

    dsn: str = field(repr=False)
    table: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A directory of Parquet files as a target.

    A materialization writes the latest message of each subject there, a transformation all its
    rows.
    """

    path: str


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A Delta or Iceberg table of Spark's catalog as a target, written by MERGE.

    It has one row for the latest message of each subject.

    Attributes:
        table: Name of the table; a missing table is created.
        format: `delta` or `iceberg`.
    """

    table: str
    format: str = "delta"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A key-value bucket as a target, with the latest message of each subject.

    Attributes:
        bucket: Name of the bucket, which must exist.
        key: SQL expression of the key over the columns of a message.
        options: Options of `format("jetstream")` for writing: servers, credentials.
        delivery: `transactional` or `at-least-once`, as in `Target`.
    """

    bucket: str
    key: str = "subject"
    options: dict[str, str] = field(default_factory=dict, repr=False)
    delivery: str = TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class Materialize:
    """A pipeline that keeps the latest message of each subject in a table or a key-value bucket.

    Attributes:
        name: Name of the pipeline, key of its progress, and application of its transactions.
        source: The stream to read.
        target: PostgreSQL table, directory of Parquet, catalog table, or key-value bucket.
        checkpoint: Directory or address of the progress.
        deletes: `remove`: the delete marker of a key removes its row; `keep`: a marker is an
            ordinary message.
        json: DDL of payloads that are JSON objects; each field becomes a column. Not for buckets.
        limits: Size and interval of batches.
    """

    kind: ClassVar[str] = "materialize"
    name: str
    source: Source
    target: Table | Snapshot | CatalogTable | Bucket
    checkpoint: str
    deletes: str = "remove"
    json: str = ""
    limits: Limits = Limits()

    @classmethod
    def read(cls, name: str, fields: Fields) -> "Materialize":
        """Parse the declaration of a materialization.

        Raises DeclarationError if a field is missing or invalid.
        """
        source = Source.read(fields.inner("source"), one=True)
        target = _materialized(fields.inner("target"))
        checkpoint = _checkpoint(fields)
        deletes = fields.choice("deletes", ("remove", "keep"), "remove")
        json = fields.text("json", "")
        if json and isinstance(target, Bucket):
            raise fields.wrong("json", "to be left out where the target is a bucket")
        return cls(name, source, target, checkpoint, deletes, json, Limits.read(fields))


@dataclass(frozen=True, slots=True)
class Transform:
    """A pipeline that runs an SQL query over streams and writes its rows to a stream or to Parquet.

    Attributes:
        name: Name of the streaming query, and application of its transactions.
        source: The streams to read.
        target: The stream to write to, or a directory of Parquet.
        checkpoint: Spark's checkpoint location.
        sql: The query over the view `input`; for a stream it returns `subject` and `data`, and
            optionally `headers`.
        json: DDL of payloads that are JSON objects; `data` is then a struct.
        watermark: Column and delay, such as `("timestamp", "10 seconds")`; None: none.
        every: Seconds between batches; None: read the messages stored now, then end.
    """

    kind: ClassVar[str] = "transform"
    name: str
    source: Source
    target: Target | Snapshot
    checkpoint: str
    sql: str
    json: str = ""
    watermark: tuple[str, str] | None = None
    every: float | None = None

    @classmethod
    def read(cls, name: str, fields: Fields) -> "Transform":
        """Parse the declaration of a transformation.

        Raises DeclarationError if a field is missing or invalid.
        """
        source = Source.read(fields.inner("source"))
        inner = fields.inner("target")
        target: Target | Snapshot
        if inner.has("path"):
            target = Snapshot(inner.text("path"))
            inner.end()
        else:
            target = Target.read(inner)
        watermark = None
        if fields.has("watermark"):
            late = fields.inner("watermark")
            watermark = (late.text("column", "timestamp"), late.text("delay"))
            late.end()
        return cls(
            name,
            source,
            target,
            _checkpoint(fields),
            fields.text("sql", expected="a query over the view `input`"),
            fields.text("json", ""),
            watermark,
            fields.duration("every", None),
        )


@dataclass(frozen=True, slots=True)
class Analytics:
    """A pipeline that writes tables about streams.

    The tables are rates, sizes, subjects and consumers, with `events` also advisories and ack
    latency.

    Attributes:
        name: Name of the pipeline in reports.
        source: The streams to read.
        path: Directory or address; each table is Parquet in a directory of its name.
        bucket: Seconds that one row of the table `rates` covers.
        depth: Number of leading subject tokens by which the tables group messages.
        events: Stream that stores `$JS.EVENT.>`, for advisories and ack latency; empty: none.
    """

    kind: ClassVar[str] = "analytics"
    name: str
    source: Source
    path: str
    bucket: float = 60.0
    depth: int = 2
    events: str = ""

    @classmethod
    def read(cls, name: str, fields: Fields) -> "Analytics":
        """Parse the declaration of an analytics pipeline.

        Raises DeclarationError if a field is missing or invalid.
        """
        source = Source.read(fields.inner("source"))
        target = fields.inner("target")
        path = target.text("path", expected="a directory, or an address such as s3://bucket/tables")
        target.end()
        bucket = fields.duration("bucket", 60.0) or 60.0
        depth = fields.integer("depth", 2, least=1) or 2
        return cls(name, source, path, bucket, depth, fields.text("events", ""))


Pipeline = Archive | Replay | Materialize | Transform | Analytics
KINDS: dict[str, type[Pipeline]] = {
    "archive": Archive,
    "replay": Replay,
    "materialize": Materialize,
    "transform": Transform,
    "analytics": Analytics,
}


def pipeline(values: object, where: str = "pipeline") -> Pipeline:
    """Create the pipeline that a mapping declares, by its field `kind`.

    Raises DeclarationError if a field is missing, invalid or unknown.

    Args:
        values: The mapping from YAML.
        where: Path of the mapping in the file, for errors.
    """
    fields = Fields(values, where)
    kind = fields.choice("kind", tuple(KINDS))
    name = fields.text("name", expected=_NAMED)
    if not _NAME.fullmatch(name):
        raise fields.wrong("name", _NAMED)
    found: Pipeline = KINDS[kind].read(name, fields)
    fields.end()
    return found


def _checkpoint(fields: Fields) -> str:
    return fields.text("checkpoint", expected="a directory, or an address such as s3://bucket/dir")


def _materialized(fields: Fields) -> Table | Snapshot | CatalogTable | Bucket:
    kinds = [name for name in ("dsn", "path", "catalog", "bucket") if fields.has(name)]
    if len(kinds) != 1:
        found = "has " + (" and ".join(kinds) or "none of them")
        raise DeclarationError(fields.where, found, "exactly one of dsn, path, catalog, bucket")
    target: Table | Snapshot | CatalogTable | Bucket
    if kinds == ["dsn"]:
        table = fields.text("table", expected="the name of a table")
        if not _COLUMN.fullmatch(table):
            raise fields.wrong("table", "the name of a table, such as public.latest")
        target = Table(fields.text("dsn"), table)
    elif kinds == ["path"]:
        target = Snapshot(fields.text("path"))
    elif kinds == ["catalog"]:
        name = fields.text("catalog")
        if not _COLUMN.fullmatch(name):
            raise fields.wrong("catalog", "the name of a table, such as db.latest")
        target = CatalogTable(name, fields.choice("format", ("delta", "iceberg"), "delta"))
    else:
        bucket = fields.text("bucket")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", bucket):
            raise DeclarationError(fields.path("bucket"), shown(bucket), "the name of a bucket")
        target = Bucket(
            bucket,
            fields.text("key", "subject"),
            fields.options("options", OWN),
            fields.choice("delivery", DELIVERIES, TRANSACTIONAL),
        )
    fields.end()
    return target
