"""The options of the `jetstream` format as values; what they mean is in the README's table.

Names are the same whatever their case, as everywhere in Spark. An option that does not exist is
refused, for a mistyped one would be ignored silently. Secrets may be `env:NAME` or `file:PATH`.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark_jetstream import nats_options, positions, schema, subjects
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.positions import Places
from pyspark_jetstream.values import InvalidOption, Secret, UnknownOption, Values

CONNECTION = ("transport", "dsn", "account", "timeout", "verify", *nats_options.NAMES)
"""Options of every query."""

READ = (
    "stream",
    "filterSubjects",
    "mode",
    "consumer",
    "startingPosition",
    "failOnDataLoss",
    "payload",
    "jsonSchema",
    "columns",
    "minPartitions",
    "maxMessagesPerPartition",
    "maxBytesPerPartition",
)
"""Options of reading, in batch and streaming."""

BATCH_READ = ("endingPosition", "asOf", "pushdown")
STREAM_READ = ("maxMessagesPerTrigger", "maxBytesPerTrigger")

KNOWN = (*CONNECTION, *READ, *BATCH_READ, *STREAM_READ)
"""Every option of reading."""

_PARTITION_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach the streams.

    Args:
        transport: `sql` or `nats`.
        dsn: PostgreSQL's connection string, for `sql`.
        account: The account whose streams are meant, for `sql`.
        timeout: Seconds that a read waits for a server that is away or a standby that lags.
        verify: Whether the checksum of every message is computed again, for `sql`.
        nats: Servers and secrets, for `nats`.
    """

    transport: str
    dsn: Secret | None
    account: str
    timeout: float
    verify: bool
    nats: Settings | None = None


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a range of messages becomes partitions; None: no such limit."""

    min_partitions: int
    max_messages: int | None
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is read, and how.

    Args:
        connection: How to reach the streams.
        streams: Their names.
        filters: Subjects to read, with wildcards; empty for all.
        mode: `log` reads by position, `consumer` what a consumer delivers.
        consumer: Its name; "" for `log`.
        start: Where reading begins when there is no checkpoint.
        end: Where a batch read ends.
        as_of: Read the last message of each subject as of a place; None: read the log.
        fail_on_loss: `true`, `false`, or `strict`: interior removals are losses too.
        payload: What becomes of payloads: `binary`, `string`, `json` or `none`.
        json_schema: The type of `data` for `json`, as DDL.
        columns: What is read, in order.
        split: How partitions are cut.
        pushdown: Whether conditions of a batch query are evaluated at the source.
        max_messages, max_bytes: The most that one micro-batch holds; None: everything there is.
    """

    connection: ConnectionOptions
    streams: tuple[str, ...]
    filters: tuple[str, ...]
    mode: str
    consumer: str
    start: Places
    end: Places
    as_of: Places | None
    fail_on_loss: str
    payload: str
    json_schema: str
    columns: tuple[str, ...]
    split: SplitOptions
    pushdown: bool
    max_messages: int | None
    max_bytes: int | None


def connection_options(values: Values) -> ConnectionOptions:
    """How to reach the streams. Raises InvalidOption."""
    dsn = values.secret("dsn")
    timeout = values.seconds("timeout", 60.0)
    nats = nats_options.nats_settings(values, timeout)
    transport = values.choice("transport", ("auto", "sql", "nats"), "auto")
    if transport == "auto":
        transport = "nats" if dsn is None and nats is not None else "sql"
    if transport == "sql" and dsn is None:
        raise InvalidOption("dsn", None, "PostgreSQL's connection string, or env:NAME, file:PATH")
    if transport == "nats" and nats is None:
        raise InvalidOption("servers", None, "addresses such as nats://host:4222")
    return ConnectionOptions(
        transport=transport,
        dsn=dsn,
        account=values.text("account") or "$G",
        timeout=timeout,
        verify=values.flag("verify", False),
        nats=nats,
    )


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.read`. Raises InvalidOption."""
    return _read_options(options, default_start="earliest", refused=STREAM_READ, by="readStream")


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.readStream`. Raises InvalidOption."""
    return _read_options(options, default_start="latest", refused=BATCH_READ, by="read")


def schema_text(options: Mapping[str, str]) -> str:
    """The schema of a query, as DDL; Spark asks before it is known whether it streams."""
    values = Values(options)
    refuse_unknown(values, KNOWN)
    return schema.ddl(*_columns(values))


def _read_options(
    options: Mapping[str, str], *, default_start: str, refused: tuple[str, ...], by: str
) -> ReadOptions:
    values = Values(options)
    refuse_unknown(values, KNOWN)
    for name in refused:
        if values.text(name) is not None:
            raise InvalidOption(name, values.text(name), f"no such option here: it is for {by}")
    streams = values.names_list("stream")
    if not streams:
        raise InvalidOption("stream", None, "the name of a stream, or several with commas")
    columns, payload, json_schema = _columns(values)
    as_of = values.text("asOf")
    if as_of is not None:
        for name in ("startingPosition", "endingPosition"):
            if values.text(name) is not None:
                raise InvalidOption(name, values.text(name), "not to be set together with asOf")
    filters = subjects.checked(values.names_list("filterSubjects"), "filterSubjects")
    fail_on_loss = values.choice("failOnDataLoss", ("true", "false", "strict"), "true")
    if fail_on_loss == "strict" and (filters or as_of is not None):
        raise InvalidOption(
            "failOnDataLoss", "strict", "true or false where not every message is read"
        )
    mode = values.choice("mode", ("log", "consumer") if by == "read" else ("log",), "log")
    connection = connection_options(values)
    _check_consumer(values, mode, streams, connection)
    return ReadOptions(
        connection=connection,
        streams=streams,
        filters=filters,
        mode=mode,
        consumer=values.text("consumer") or "",
        start=_known(positions.starts, values, "startingPosition", default_start, streams),
        end=_known(positions.ends, values, "endingPosition", "latest", streams),
        as_of=_known(positions.ends, values, "asOf", "latest", streams) if as_of else None,
        fail_on_loss=fail_on_loss,
        payload=payload,
        json_schema=json_schema,
        columns=columns,
        split=SplitOptions(
            min_partitions=values.number("minPartitions") or 1,
            max_messages=values.number("maxMessagesPerPartition"),
            max_bytes=values.size("maxBytesPerPartition") or _PARTITION_BYTES,
        ),
        pushdown=values.flag("pushdown", False),
        max_messages=values.number("maxMessagesPerTrigger"),
        max_bytes=values.size("maxBytesPerTrigger"),
    )


def _check_consumer(
    values: Values, mode: str, streams: tuple[str, ...], connection: ConnectionOptions
) -> None:
    if mode == "log":
        if values.text("consumer") is not None:
            raise InvalidOption("consumer", values.text("consumer"), "none without mode=consumer")
        return
    if values.text("consumer") is None:
        raise InvalidOption("consumer", None, "the name of a durable consumer, for mode=consumer")
    if len(streams) > 1:
        raise InvalidOption("stream", values.text("stream"), "one stream, for mode=consumer")
    if connection.nats is None:
        raise InvalidOption("servers", None, "addresses of NATS to pull from, for mode=consumer")
    for name in ("startingPosition", "maxBytesPerTrigger"):
        if values.text(name) is not None:
            raise InvalidOption(name, values.text(name), "nothing: a consumer has its own place")


def _columns(values: Values) -> tuple[tuple[str, ...], str, str]:
    payload = values.choice("payload", ("binary", "string", "json", "none"), "binary")
    json_schema = values.text("jsonSchema") or ""
    if (payload == "json") != bool(json_schema):
        raise InvalidOption("jsonSchema", json_schema or None, "to be set exactly if payload=json")
    known = schema.columns_of(payload)
    asked = values.names_list("columns") or schema.defaults(payload)
    by_name = {name.lower(): name for name in known}
    for name in asked:
        if name.lower() not in by_name:
            raise InvalidOption("columns", name, "some of " + ", ".join(known))
    return tuple(by_name[name.lower()] for name in asked), payload, json_schema


def _known(
    parse: Callable[[str, str | None, str], Places],
    values: Values,
    name: str,
    default: str,
    streams: tuple[str, ...],
) -> Places:
    places = parse(name, values.text(name), default)
    for stream in places:
        if stream and stream not in streams:
            raise InvalidOption(name, stream, "positions of streams that are read: " + str(streams))
    return places


def refuse_unknown(values: Values, names: tuple[str, ...]) -> None:
    """Refuse options that are none of these, and guess which was meant. Raises UnknownOption."""
    known = {name.lower(): name for name in names}
    for name in values.names():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else "one of " + ", ".join(names)
            raise UnknownOption(name, hint)
