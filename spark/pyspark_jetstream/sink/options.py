"""Parser of the options of writers, and check of the DataFrame's columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.options import (
    CONNECTION,
    KNOWN,
    WRITE,
    ConnectionOptions,
    connection_options,
    refuse_unknown,
    stream_names,
)
from pyspark_jetstream.sink.rows import Shape
from pyspark_jetstream.subjects import is_filter, is_literal, is_of_the_server
from pyspark_jetstream.values import InvalidOption, Values

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

AT_LEAST_ONCE, TRANSACTIONAL = "at-least-once", "transactional"

_TEXT = ("string",)
_BYTES = ("binary", "string")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_COLUMNS = {
    "subject": _TEXT,
    "data": _BYTES,
    "headers": ("map<string,array<string>>", "map<string,string>", "binary"),
    "msg_id": _TEXT,
    "ttl": (*_TEXT, *_WHOLE),
    "expected_last_seq": _WHOLE,
    "expected_last_subject_seq": _WHOLE,
}
"""Columns of a DataFrame that a writer uses, with their valid types."""

_IGNORED = ("stream", "seq", "timestamp", "timestamp_ns", "size", "is_later")
"""Columns of a read that a writer ignores, because the target stream assigns new values."""

_EXPECTED = ("expected_last_seq", "expected_last_subject_seq")
_IN_FLIGHT = 4096
_BYTES_IN_FLIGHT = 8 << 20


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a writer, with the columns of the DataFrame.

    Attributes:
        settings: NATS servers and credentials.
        target: Name of the stream, for transactions; else "".
        shape: Columns of the DataFrame.
        transactional: True to store every row exactly once, by a transaction.
        ids: True to add message ids.
        app: Name of the application in transactions and ids (`txnAppId`); "" if not set.
        version: Number of a batch write (`txnVersion`); None in streaming, or if not set.
        in_flight, bytes_in_flight: Largest number of unacknowledged messages, and of their bytes,
            for each task.
        stall_timeout: Limit of a commit without progress, in seconds.
    """

    settings: Settings
    target: str
    shape: Shape
    transactional: bool
    ids: bool
    app: str
    version: int | None
    in_flight: int
    bytes_in_flight: int
    stall_timeout: float


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of a writer, without the columns of the DataFrame.

    Attributes:
        connection: The options of the NATS connection.
        stream: Name of the target; "" if the subjects decide which stream stores a row.
        subject: Subject of rows without one; "" if every row has a subject.
        transactional: True to store every row exactly once, by a transaction.
        ids: True to add message ids.
        app: Name of the application in transactions and ids (`txnAppId`); "" if not set.
        version: Number of a batch write (`txnVersion`); None in streaming, or if not set.
        in_flight, bytes_in_flight: Largest number of unacknowledged messages, and of their bytes,
            for each task.
    """

    connection: ConnectionOptions
    stream: str
    subject: str
    transactional: bool
    ids: bool
    app: str
    version: int | None
    in_flight: int
    bytes_in_flight: int


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Parse the options of a writer, without the columns of the DataFrame.

    Raises InvalidOption if an option is invalid or unknown, or does not go with another one.
    """
    values = Values(options)
    refuse_unknown(values, (*CONNECTION, *WRITE, *_SPARK), KNOWN, "reading")
    if values.text("transport") not in (None, "auto", "nats"):
        raise InvalidOption("transport", values.text("transport"), "nats, for writing always is")
    if values.text("servers") is None:
        raise InvalidOption("servers", None, "addresses such as nats://host:4222, to write to")
    connection = connection_options(values)
    delivery = values.choice("delivery", (AT_LEAST_ONCE, TRANSACTIONAL), AT_LEAST_ONCE)
    version = values.number("txnVersion", least=0)
    if streaming and version is not None:
        raise InvalidOption("txnVersion", version, "none in streaming, where batches are numbered")
    transactional = delivery == TRANSACTIONAL
    app = values.text("txnAppId") or ""
    _check_transaction(values, app, version, transactional, streaming)
    stream = stream_names(values)
    if len(stream) > 1:
        raise InvalidOption("stream", values.text("stream"), "the name of one stream")
    subject = values.text("subject") or ""
    if subject and not (is_filter(subject) and is_literal(subject)):
        raise InvalidOption("subject", subject, "a subject without wildcards")
    assert connection.nats is not None, "it has servers"
    if subject and is_of_the_server(subject, connection.nats.api_prefix):
        raise InvalidOption("subject", subject, "a subject of messages, none of the server's API")
    return WriteOptions(
        connection=connection,
        stream=stream[0] if stream else "",
        subject=subject,
        transactional=transactional,
        ids=values.choice("ids", ("on", "off"), "off" if transactional else "on") == "on",
        app=app,
        version=version,
        in_flight=values.number("maxInFlight") or _IN_FLIGHT,
        bytes_in_flight=values.size("maxBytesInFlight") or _BYTES_IN_FLIGHT,
    )


def sink_options(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool, streaming: bool
) -> SinkOptions:
    """Parse the options of a writer for a DataFrame with the given schema.

    Raises InvalidOption if an option or a column is invalid, or if `overwrite` is True.
    """
    if overwrite:
        raise InvalidOption("mode", "overwrite", "append: a stream is a log")
    checked = write_options(options, streaming=streaming)
    assert checked.connection.nats is not None, "checked with the options"
    return SinkOptions(
        settings=checked.connection.nats,
        target=checked.stream if checked.transactional else "",
        shape=_shape(checked, schema),
        transactional=checked.transactional,
        ids=checked.ids,
        app=checked.app,
        version=checked.version,
        in_flight=checked.in_flight,
        bytes_in_flight=checked.bytes_in_flight,
        stall_timeout=checked.connection.timeout,
    )


_SPARK = ("path", "checkpointLocation", "queryName")
"""Options that Spark itself adds to those of a writer."""


def _check_transaction(
    values: Values, app: str, version: int | None, transactional: bool, streaming: bool
) -> None:
    if "/" in app or not app.isprintable() or len(app) > 128:
        raise InvalidOption("txnAppId", app, "a name of at most 128 characters without a slash")
    if not transactional:
        if version is not None and not app:
            raise InvalidOption("txnAppId", None, "a name, where txnVersion is set")
        return
    if not app:
        raise InvalidOption("txnAppId", None, "a name that stays the same, for transactions")
    if not streaming and version is None:
        raise InvalidOption("txnVersion", None, "the number of this write, for transactions")
    if values.text("stream") is None:
        raise InvalidOption("stream", None, "the name of the stream, for transactions")
    if values.choice("ids", ("on", "off"), "off") == "on":
        raise InvalidOption("ids", "on", "off: a transaction stores every row once without ids")


def _shape(checked: WriteOptions, schema: "StructType") -> Shape:
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, kind in found.items():
        if name in _IGNORED:
            continue
        if name not in _COLUMNS:
            expected = "columns " + ", ".join(_COLUMNS) + "; those of what was read are ignored"
            raise InvalidOption("column", name, expected)
        if kind not in _COLUMNS[name]:
            raise InvalidOption(
                f"column {name}", kind, "one of the types " + ", ".join(_COLUMNS[name])
            )
        if checked.transactional and name in _EXPECTED:
            raise InvalidOption("column", name, "none in transactions: it is for at-least-once")
    if not checked.subject and "subject" not in found:
        raise InvalidOption("subject", None, "a subject, or a column subject")
    if "data" not in found:
        raise InvalidOption("column", "data missing", "a column data, the payload")
    columns = frozenset(name for name in found if name in _COLUMNS)
    # A transaction names its stream itself, so its rows need no Nats-Expected-Stream.
    stream = "" if checked.transactional else checked.stream
    assert checked.connection.nats is not None, "checked with the options"
    return Shape(checked.subject, stream, columns, checked.connection.nats.api_prefix)
