"""The options of the `jetstream` format as values; the README's table explains them.

Names ignore case, as everywhere in Spark. An unknown option is refused, because a mistyped one
would otherwise be ignored silently. Secrets may be `env:NAME` or `file:PATH`.
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
"""Options of every query."""

JSON = ("jsonMode", "columnNameOfCorruptRecord", "timeZone")
"""Options of JSON payloads besides their type."""

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
"""Options of reading, in batch and streaming."""

BATCH_READ = ("endingPosition", "asOf", "asOfExact", "pushdown")
STREAM_READ = ("maxMessagesPerTrigger", "maxBytesPerTrigger")

KNOWN = (*CONNECTION, *READ, *BATCH_READ, *STREAM_READ)
"""Every option of reading."""

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
"""Options of writing, in batch and streaming."""

_DSN = "PostgreSQL's connection string, or env:NAME, file:PATH"
_SERVERS = "addresses of NATS such as nats://host:4222"
_NAME = "the name of {}, without blanks, '.', '*', '>', '/' and '\\'"
_PARTITION_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The connection to the streams.

    Attributes:
        transport: `sql` or `nats`.
        dsn: PostgreSQL's connection string, for `sql`.
        account: Account of the streams, for `sql`.
        timeout: Seconds that a read waits for an unavailable server or a lagging standby.
        verify: True to recompute the checksum of every message, for `sql`.
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
    """Limits of the partitions of a range; None: no such limit."""

    min_partitions: int
    max_messages: int | None
    max_bytes: int


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The interpretation of JSON payloads, as the options of `from_json`.

    Attributes:
        fail_fast: True if a payload that does not fit the type is an error.
        corrupt: Name of the field that keeps such a payload as text, if the type has it.
        zone: Time zone of times without one.
    """

    fail_fast: bool = False
    corrupt: str = "_corrupt_record"
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read.

    Attributes:
        connection: The connection to the streams.
        streams: Their names.
        filters: Subjects to read, with wildcards; empty for all.
        mode: `log` reads by position, `consumer` through a durable consumer.
        consumer: Name of the consumer; "" for `log`.
        start: Start of a read without a checkpoint.
        end: End of a batch read.
        as_of: Read the last message of each subject as of a place; None: read the log.
        as_of_exact: Leave out subjects whose message of that time is no longer stored.
        fail_on_loss: `true`, `false`, or `strict`: interior removals are losses too.
        payload: Form of payloads: `binary`, `string`, `json` or `none`.
        json: Interpretation of JSON payloads.
        columns: Columns to read, in order.
        split: Limits of partitions.
        pushdown: True to evaluate conditions of a batch query at the source.
        max_messages, max_bytes: Limits of one micro-batch; None: no limit.
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
    """Return the options of the connection. Raises InvalidOption."""
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
    """Return the connection string, resolved on this machine. Raises InvalidOption."""
    text = dsn.resolve()
    if not text.startswith(("postgresql://", "postgres://")) and "=" not in text:
        raise InvalidOption(dsn.name, SET, "postgresql://user@host/database or host=... dbname=...")
    return text


def stream_names(values: Values) -> tuple[str, ...]:
    """Return the names in the option `stream`. Raises InvalidOption."""
    streams = values.names_list("stream")
    for name in streams:
        if not is_name(name):
            raise InvalidOption("stream", name, _NAME.format("a stream"))
    return streams


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of `spark.read`. Raises InvalidOption."""
    return _read_options(options, default_start="earliest", refused=STREAM_READ, by="readStream")


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of `spark.readStream`. Raises InvalidOption."""
    return _read_options(options, default_start="latest", refused=BATCH_READ, by="read")


def schema_text(options: Mapping[str, str]) -> str:
    """Return the schema of a query as DDL; Spark asks for it before choosing batch or streaming."""
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
    """Return form of payloads, DDL of `data` for `json` (else ""), and the JSON options."""
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
    """Refuse options outside `names`, and suggest a similar name. Raises InvalidOption.

    Args:
        values: The options of a query.
        names: Options that the query may have.
        other_use: Options of queries of another use.
        use: Name of that other use.
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
