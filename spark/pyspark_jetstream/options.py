"""Parser of the options of the `jetstream` format; the README describes each option.

Names ignore case, as everywhere in Spark. An unknown option is refused, because a mistyped one
would otherwise be ignored silently. The value of a secret may be `env:NAME` or `file:PATH`.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark_jetstream import ddl, nats_options, positions, schema, subjects
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.positions import Places
from pyspark_jetstream.subjects import is_name
from pyspark_jetstream.times import is_zone
from pyspark_jetstream.values import SET, InvalidOption, Secret, UnknownOption, Values

CONNECTION = ("transport", "dsn", "account", "timeout", "verify", *nats_options.NAMES)
"""Names of the options of the connection, valid for reading and writing."""

JSON = ("jsonMode", "columnNameOfCorruptRecord", "timeZone")
"""Names of the options of JSON payloads, without `jsonSchema`."""

READ = (
    "stream",
    "filterSubjects",
    "mode",
    "consumer",
    "startingPosition",
    "failOnDataLoss",
    "payload",
    "jsonSchema",
    *JSON,
    "columns",
    "minPartitions",
    "maxMessagesPerPartition",
    "maxBytesPerPartition",
)
"""Names of the options of reading that are valid in batch and streaming."""

BATCH_READ = ("endingPosition", "asOf", "asOfExact", "pushdown")
STREAM_READ = ("maxMessagesPerTrigger", "maxBytesPerTrigger")

KNOWN = (*CONNECTION, *READ, *BATCH_READ, *STREAM_READ)
"""Names of all options of reading, with those of the connection."""

WRITE = (
    "stream",
    "subject",
    "delivery",
    "ids",
    "txnAppId",
    "txnVersion",
    "maxInFlight",
    "maxBytesInFlight",
)
"""Names of the options of writing, in batch and streaming."""

_DSN = "PostgreSQL's connection string, or env:NAME, file:PATH"
_SERVERS = "addresses of NATS such as nats://host:4222"
_NAME = "the name of {}, without blanks, '.', '*', '>', '/' and '\\'"
_PARTITION_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options of the connection to PostgreSQL or NATS.

    Attributes:
        transport: `sql` (read the tables of PostgreSQL) or `nats`.
        dsn: Connection string of PostgreSQL; None only if `transport` is `nats`.
        account: Account of the streams, for `sql`.
        timeout: Seconds that a read waits for an unavailable server or a lagging standby.
        verify: True to recompute the checksum of every message, for `sql`.
        nats: Servers and credentials; None only if `transport` is `sql`.
    """

    transport: str
    dsn: Secret | None
    account: str
    timeout: float
    verify: bool
    nats: Settings | None = None


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """The limits that decide into how many partitions a range of sequences is divided.

    Attributes:
        min_partitions: Least number of partitions, if the range has as many sequences.
        max_messages: Largest number of messages of a partition; None: no limit.
        max_bytes: Largest size of a partition, in bytes.
    """

    min_partitions: int
    max_messages: int | None
    max_bytes: int


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The options of parsing JSON payloads, with the meaning of `from_json`.

    Attributes:
        fail_fast: True if a payload that does not fit the type is an error; False if its value
            becomes null, or a struct of nulls.
        corrupt: Name of the field of the type that receives the text of such a payload.
        zone: Time zone of times without one.
    """

    fail_fast: bool = False
    corrupt: str = "_corrupt_record"
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options of a read.

    Attributes:
        connection: The connection to PostgreSQL or NATS.
        streams: Names of the streams.
        filters: Subjects to read, with wildcards; empty for all.
        mode: `log` reads by sequence, `consumer` through a durable consumer.
        consumer: Name of the consumer; "" for `log`.
        start: Start of a read without a checkpoint.
        end: End of a batch read.
        as_of: Sequence or time as of which the last message of each subject is read; None: read all
            messages of the range.
        as_of_exact: Leave out subjects whose message of that time is no longer stored.
        fail_on_loss: `true`, `false`, or `strict`: sequences missing between stored ones are
            losses.
        payload: Type of the column `data`: `binary`, `string`, `json`, or `none` without it.
        json: Options of parsing JSON payloads.
        columns: Columns to read, in order.
        split: Limits of partitions.
        pushdown: True to evaluate conditions of a batch query in the reader instead of in Spark.
        max_messages, max_bytes: Limits of one micro-batch in messages and bytes; None: no limit.
    """

    connection: ConnectionOptions
    streams: tuple[str, ...]
    filters: tuple[str, ...]
    mode: str
    consumer: str
    start: Places
    end: Places
    as_of: Places | None
    as_of_exact: bool
    fail_on_loss: str
    payload: str
    json: JsonOptions
    columns: tuple[str, ...]
    split: SplitOptions
    pushdown: bool
    max_messages: int | None
    max_bytes: int | None


def connection_options(values: Values) -> ConnectionOptions:
    """Parse the options of the connection.

    Raises InvalidOption if a value is invalid, or the transport lacks its `dsn` or `servers`.
    """
    dsn = values.secret("dsn")
    timeout = values.seconds("timeout", 60.0)
    nats = nats_options.nats_settings(values, timeout)
    transport = values.choice("transport", ("auto", "sql", "nats"), "auto")
    if transport == "auto":
        if dsn is None and nats is None:
            raise InvalidOption("dsn or servers", None, f"dsn, {_DSN}, or servers, {_SERVERS}")
        transport = "nats" if dsn is None else "sql"
    if transport == "sql" and dsn is None:
        raise InvalidOption("dsn", None, f"{_DSN}, for transport=sql")
    if dsn is not None and not dsn.is_elsewhere:
        checked_dsn(dsn)
    if transport == "nats" and nats is None:
        raise InvalidOption("servers", None, f"{_SERVERS}, for transport=nats")
    return ConnectionOptions(
        transport=transport,
        dsn=dsn,
        account=_account(values),
        timeout=timeout,
        verify=values.flag("verify", False),
        nats=nats,
    )


def _account(values: Values) -> str:
    account = values.text("account") or "$G"
    if re.search(r"[\s\x00-\x1f]", account):
        raise InvalidOption("account", account, "the name of an account, without blanks")
    return account


def checked_dsn(dsn: Secret) -> str:
    """Return the connection string; `env:NAME` and `file:PATH` are read on this machine.

    Raises InvalidOption if it cannot be read or is not a connection string of PostgreSQL.
    """
    text = dsn.resolve()
    if not text.startswith(("postgresql://", "postgres://")) and "=" not in text:
        raise InvalidOption(dsn.name, SET, "postgresql://user@host/database or host=... dbname=...")
    return text


def stream_names(values: Values) -> tuple[str, ...]:
    """Return the names in the option `stream`, empty if not set.

    Raises InvalidOption if a name is not a valid stream name.
    """
    streams = values.names_list("stream")
    for name in streams:
        if not is_name(name):
            raise InvalidOption("stream", name, _NAME.format("a stream"))
    return streams


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.read`. Raises InvalidOption if one is invalid or unknown."""
    return _read_options(options, default_start="earliest", refused=STREAM_READ, by="readStream")


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.readStream`.

    Raises InvalidOption if one is invalid or unknown.
    """
    return _read_options(options, default_start="latest", refused=BATCH_READ, by="read")


def schema_text(options: Mapping[str, str]) -> str:
    """Return the columns of a read as DDL, from its options.

    Spark calls it before it chooses between batch and streaming. Raises InvalidOption if an option
    of the columns is invalid, or any option is unknown.
    """
    values = Values(options)
    refuse_unknown(values, KNOWN, WRITE, "writing")
    payload, json_ddl, _ = _payload(values)
    return schema.ddl(_columns(values, payload), payload, json_ddl)


def _read_options(
    options: Mapping[str, str], *, default_start: str, refused: tuple[str, ...], by: str
) -> ReadOptions:
    values = Values(options)
    refuse_unknown(values, KNOWN, WRITE, "writing")
    for name in refused:
        if values.text(name) is not None:
            expected = f"to be left out here: it is an option of spark.{by}"
            raise InvalidOption(name, values.text(name), expected)
    streams = stream_names(values)
    if not streams:
        raise InvalidOption("stream", None, "the name of a stream, or several with commas")
    payload, _, json = _payload(values)
    columns = _columns(values, payload)
    as_of = values.text("asOf")
    if as_of is not None:
        for name in ("startingPosition", "endingPosition"):
            if values.text(name) is not None:
                raise InvalidOption(name, values.text(name), "not to be set together with asOf")
    elif values.text("asOfExact") is not None:
        raise InvalidOption("asOfExact", values.text("asOfExact"), "none without asOf")
    filters = subjects.checked(values.names_list("filterSubjects"), "filterSubjects")
    fail_on_loss = values.choice("failOnDataLoss", ("true", "false", "strict"), "true")
    if fail_on_loss == "strict" and (filters or as_of is not None):
        raise InvalidOption(
            "failOnDataLoss", "strict", "true or false where not every message is read"
        )
    mode = values.choice("mode", ("log", "consumer"), "log")
    if mode == "consumer" and by != "read":
        raise InvalidOption("mode", mode, "log here: a consumer is read by spark.readStream")
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
        as_of_exact=values.flag("asOfExact", False),
        fail_on_loss=fail_on_loss,
        payload=payload,
        json=json,
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
    if not is_name(values.text("consumer") or ""):
        raise InvalidOption("consumer", values.text("consumer"), _NAME.format("a consumer"))
    if len(streams) > 1:
        raise InvalidOption("stream", values.text("stream"), "one stream, for mode=consumer")
    if connection.nats is None:
        raise InvalidOption("servers", None, "addresses of NATS to pull from, for mode=consumer")
    for name in ("startingPosition", "maxBytesPerTrigger"):
        if values.text(name) is not None:
            raise InvalidOption(name, values.text(name), "nothing: a consumer has its own place")


def _columns(values: Values, payload: str) -> tuple[str, ...]:
    as_of = values.text("asOf") is not None
    known = schema.columns_of(payload, as_of=as_of)
    asked = values.names_list("columns") or schema.defaults(payload, as_of=as_of)
    by_name = {name.lower(): name for name in known}
    for name in asked:
        if name.lower() not in by_name:
            raise InvalidOption("columns", name, "some of " + ", ".join(known))
    return tuple(by_name[name.lower()] for name in asked)


def _payload(values: Values) -> tuple[str, str, JsonOptions]:
    """Return the option `payload`, the DDL of `data` (empty unless `json`) and the JSON options."""
    payload = values.choice("payload", ("binary", "string", "json", "none"), "binary")
    text = values.text("jsonSchema")
    if payload != "json":
        for name in ("jsonSchema", *JSON):
            if values.text(name) is not None:
                raise InvalidOption(name, values.text(name), "none without payload=json")
        return payload, "", JsonOptions()
    if text is None:
        raise InvalidOption("jsonSchema", None, f"{ddl.EXPECTED}, for payload=json")
    kind = ddl.json_type("jsonSchema", text)
    mode = values.text("jsonMode")
    if mode is not None and mode.upper() == "DROPMALFORMED":
        raise InvalidOption("jsonMode", mode, "PERMISSIVE or FAILFAST, all that from_json has")
    zone = values.text("timeZone") or "UTC"
    if not is_zone(zone):
        raise InvalidOption("timeZone", zone, "a zone such as UTC, +02:00 or Europe/Berlin")
    corrupt = values.text("columnNameOfCorruptRecord")
    if corrupt is not None and corrupt not in kind.texts:
        raise InvalidOption(
            "columnNameOfCorruptRecord", corrupt, "the name of a field of jsonSchema, a string"
        )
    fail_fast = values.choice("jsonMode", ("PERMISSIVE", "FAILFAST"), "PERMISSIVE") == "FAILFAST"
    return payload, kind.ddl, JsonOptions(fail_fast, corrupt or JsonOptions().corrupt, zone)


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


def refuse_unknown(
    values: Values, names: tuple[str, ...], other_use: tuple[str, ...], use: str
) -> None:
    """Raise InvalidOption if an option is not in `names`; the message suggests a similar name.

    Args:
        values: The options of a query.
        names: Names of the options that the query may have.
        other_use: Names of the options of the opposite use, reading or writing.
        use: Name of that opposite use, for the message.
    """
    known = {name.lower(): name for name in names}
    elsewhere = {name.lower(): name for name in other_use}
    for name in values.names():
        if name in known:
            continue
        if name in elsewhere:
            raise InvalidOption(elsewhere[name], SET, f"to be left out here: it is for {use}")
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {known[near[0]]}?" if near else "one of " + ", ".join(names)
        raise UnknownOption(name, hint)
