"""Declarations of pipelines as values, checked before Spark starts.

Every kind is a frozen dataclass; `pipeline` makes one from a mapping in YAML. A Python file may use
the classes directly; `README.md` shows both.
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
        streams: Their names.
        options: Options of `format("jetstream")`: how to reach the server, filters, splits.
        start: Start of a pipeline without a position, as in `startingPosition`.
        recreated: Reaction to a stream that was deleted and created again: `fail`, or `restart`
            with the first message of the new stream.
    """

    streams: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict, repr=False)
    start: str = "earliest"
    recreated: str = "fail"

    @property
    def may_lose(self) -> bool:
        """True to continue if messages were removed before the pipeline read them."""
        given = {name.lower(): value.lower() for name, value in self.options.items()}
        return given.get("failondataloss") == "false"

    @classmethod
    def read(cls, fields: Fields, one: bool = False) -> "Source":
        """Read the fields of `source`. Raises DeclarationError."""
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
    """The stream that a pipeline writes.

    Attributes:
        stream: Its name; the stream must exist.
        options: Options of `format("jetstream")` for writing: servers, credentials.
        delivery: `transactional`: each row exactly once, needs jetgate; `at-least-once`: message
            ids, which the server deduplicates within its window.
    """

    stream: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    delivery: str = TRANSACTIONAL

    @classmethod
    def read(cls, fields: Fields) -> "Target":
        """Read the fields of `target`. Raises DeclarationError."""
        stream = fields.text("stream", expected="the name of a stream")
        if not _STREAM.fullmatch(stream):
            raise fields.wrong("stream", "the name of a stream")
        delivery = fields.choice("delivery", DELIVERIES, TRANSACTIONAL)
        options = fields.options("options", OWN)
        fields.end()
        return cls(stream, options, delivery)


@dataclass(frozen=True, slots=True)
class Limits:
    """Size and interval of a pipeline's batches.

    Attributes:
        messages: Largest number of messages of one batch.
        every: Seconds between batches; None: read the messages present now, then end.
    """

    messages: int = 1_000_000
    every: float | None = None

    @classmethod
    def read(cls, fields: Fields) -> "Limits":
        """Read the fields `batch` and `every` of a pipeline. Raises DeclarationError."""
        messages = fields.integer("batch", cls().messages, least=1)
        return cls(messages or cls().messages, fields.duration("every", None))


@dataclass(frozen=True, slots=True)
class Purge:
    """The removal of archived messages from a stream.

    Attributes:
        keep: Number of archived sequences that stay in the stream.
        wait_for_consumers: True to keep messages that a consumer has not acknowledged.
        options: Options of `format("jetstream")` for writing: the servers.
    """

    keep: int = 0
    wait_for_consumers: bool = True
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, fields: Fields) -> "Purge":
        """Read the fields of `purge`. Raises DeclarationError."""
        keep = fields.integer("keep", 0)
        wait = fields.flag("waitForConsumers", True)
        options = fields.options("options")
        fields.end()
        return cls(keep or 0, wait, options)


@dataclass(frozen=True, slots=True)
class Archive:
    """Streams → a lake partitioned by day and stream, each message exactly once.

    Attributes:
        name: Key of the archive's position; another name archives everything again.
        path: Directory or address of the lake; for `delta` and `iceberg` that of the positions.
        format: `parquet`, `delta` or `iceberg`.
        table: The table in Spark's catalog, for `delta` and `iceberg`.
        compression: Codec of Parquet.
        purge: Removal from the streams after archiving; None: no removal.
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
        """Read the fields of the pipeline. Raises DeclarationError."""
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
    """Archived messages of one stream, as a replay reads them.

    Attributes:
        path: The lake.
        stream: The stream's name.
        incarnation: Creation time of the stream in nanoseconds since the epoch, needed if the lake
            contains several streams of this name; 0 for the only one.
    """

    path: str
    stream: str
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """A lake, or a range of a stream → a stream, in order, at the original pace or faster.

    Attributes:
        name: Key of the replay's position, and the application of its transactions.
        source: A lake or one stream.
        target: The stream to write.
        checkpoint: Directory or address of the position.
        first, last: Sequences of the range, inclusive; None: the first or last of the source.
        speed: 1 for the original pace, 10 for ten times as fast; None: no pace.
        window: Length of a window in seconds; its messages are published together.
        subject: SQL expression of the new subject; empty: unchanged subjects.
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
        """Read the fields of the pipeline. Raises DeclarationError."""
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
    """A PostgreSQL table with the latest message of each subject.

    Attributes:
        dsn: Connection string, or `env:NAME`, `file:PATH`.
        table: Its name, with or without a schema; a missing table is created.
    """

    dsn: str = field(repr=False)
    table: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A directory of Parquet with the latest message of each subject."""

    path: str


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of Spark's catalog with MERGE (Delta, Iceberg), for the latest of each subject.

    Attributes:
        table: Its name; a missing table is created.
        format: `delta` or `iceberg`.
    """

    table: str
    format: str = "delta"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A key-value bucket with the latest message of each subject.

    Attributes:
        bucket: Its name; the bucket must exist.
        key: SQL expression of the key over the columns of a message.
        delivery: As in `Target`.
    """

    bucket: str
    key: str = "subject"
    options: dict[str, str] = field(default_factory=dict, repr=False)
    delivery: str = TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class Materialize:
    """The latest message of each subject → a table or a key-value bucket.

    Attributes:
        name: Key of the position, and the application of transactions.
        checkpoint: Directory or address of the position.
        deletes: `remove`: a delete marker of a key removes its row; `keep`: a marker is a message
            like others.
        json: DDL of payloads that are JSON objects; each field becomes a column. Not for buckets.
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
        """Read the fields of the pipeline. Raises DeclarationError."""
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
    """A stream → SQL → a stream, or Parquet.

    Attributes:
        name: Name of the query, and the application of its transactions.
        checkpoint: Spark's checkpoint location.
        sql: The query over the view `input`; for a stream it returns `subject` and `data`, and
            optionally `headers`.
        json: DDL of payloads that are JSON objects; `data` is then a struct.
        watermark: Column and delay, such as `("timestamp", "10 seconds")`; None: none.
        every: Seconds between batches; None: read the messages present now, then end.
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
        """Read the fields of the pipeline. Raises DeclarationError."""
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
    """Streams → tables about them: rates, sizes, subjects, consumers, advisories, ack latency.

    Attributes:
        name: Name of the pipeline in reports.
        path: Directory or address; each table is Parquet in a directory of its name.
        bucket: Seconds of one row of `rates`.
        depth: Number of leading subject tokens that tables group by.
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
        """Read the fields of the pipeline. Raises DeclarationError."""
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
    """Return the pipeline that a mapping declares. Raises DeclarationError."""
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
