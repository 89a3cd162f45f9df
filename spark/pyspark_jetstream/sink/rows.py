"""Conversion of the rows of a DataFrame to messages: subject, header block, payload (no I/O)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.nats.settings import API_PREFIX
from pyspark_jetstream.subjects import is_of_the_server
from pyspark_jetstream.transport.errors import JetStreamError

OF_THE_SERVER = (
    "one of the server's API or system, expected one of messages (of those with '$' in front "
    "only $KV. and $O. are)"
)
BEGIN = b"NATS/1.0\r\n"
_BAD_SUBJECT = r"^$|^\.|\.$|\.\.|[\s\x00]|(^|\.)[*>](\.|$)"
_BAD_NAME = re.compile(r"[^!-9;-~]|^$")
_BAD_VALUE = re.compile(r"[\r\n]")


class RowError(JetStreamError):
    """A row is not a valid message, or the stream refused it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a DataFrame, and the values that apply to all its rows.

    Attributes:
        subject: Subject of rows without one; "" if every row has a subject.
        stream: The stream that must store the rows (`Nats-Expected-Stream`); "" for any.
        columns: Names of the columns that the writer uses.
        api_prefix: Subject prefix of JetStream's API; rows must not have such a subject.
    """

    subject: str
    stream: str
    columns: frozenset[str]
    api_prefix: str = API_PREFIX


_HEADER_COLUMNS = {
    "msg_id": "Nats-Msg-Id",
    "ttl": "Nats-TTL",
    "expected_last_seq": "Nats-Expected-Last-Sequence",
    "expected_last_subject_seq": "Nats-Expected-Last-Subject-Sequence",
}
"""Columns whose value becomes a header, with the name of the header."""


class RowEncoder:
    """Converter of the record batches of one partition to messages.

    `encode` is called with each batch, in order.

    Args:
        shape: Columns of the DataFrame.
        partition: Number of the partition, for error messages.
    """

    def __init__(self, shape: Shape, partition: int) -> None:
        self._shape = shape
        self._partition = partition
        self._rows = 0
        self._expected = (
            b"Nats-Expected-Stream: %b\r\n" % shape.stream.encode() if shape.stream else b""
        )

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Return subjects, header lines and payloads of the rows in a batch.

        Header lines lack the `NATS/1.0` before them and the empty line after them.

        Raises:
            RowError: A row has no valid subject, header or TTL; the message names the row.
        """
        subjects = self._subjects(batch)
        lines = self._lines(batch)
        payloads = self._payloads(batch)
        self._rows += batch.num_rows
        return subjects, lines, payloads

    def _subjects(self, batch: pa.RecordBatch) -> list[bytes]:
        if "subject" not in self._shape.columns:
            return [self._shape.subject.encode()] * batch.num_rows
        column = batch.column("subject").cast(pa.string())
        if self._shape.subject:
            column = pc.fill_null(column, self._shape.subject)
        bad = pc.fill_null(pc.match_substring_regex(column, _BAD_SUBJECT), True)
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            self._refuse(row, f"subject {column[row].as_py()!r} is none to publish to")
        self._refuse_subjects_of_the_server(column)
        return [value or b"" for value in values(column)]

    def _refuse_subjects_of_the_server(self, column: pa.Array) -> None:
        """Raise RowError for a subject of the server's API, because the message would be a
        request.
        """
        asked = pc.starts_with(column, "$")
        if self._shape.api_prefix != API_PREFIX:
            asked = pc.or_(asked, pc.starts_with(column, self._shape.api_prefix))
        if not pc.any(asked).as_py():
            return
        for row, subject in enumerate(column.to_pylist()):
            if is_of_the_server(subject, self._shape.api_prefix):
                self._refuse(row, f"subject {subject!r} is {OF_THE_SERVER}")

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        if "data" not in self._shape.columns:
            return [b""] * batch.num_rows
        return [value or b"" for value in values(batch.column("data"))]

    def _lines(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the header lines of each row, without a generated message id."""
        lines = [self._expected] * batch.num_rows
        for name, header in _HEADER_COLUMNS.items():
            if name in self._shape.columns:
                texts = self._texts(batch, name)
                start = header.encode() + b": "
                lines = [
                    line if text is None else line + start + text + b"\r\n"
                    for line, text in zip(lines, texts, strict=True)
                ]
        if "headers" in self._shape.columns:
            own = self._own(batch.column("headers"))
            lines = [line + more for line, more in zip(lines, own, strict=True)]
        return lines

    def _texts(self, batch: pa.RecordBatch, name: str) -> list[bytes | None]:
        column = batch.column(name)
        if pa.types.is_integer(column.type):
            return values(column.cast(pa.string()))
        texts = values(column)
        for row, text in enumerate(texts):
            if text is not None and (b"\r" in text or b"\n" in text):
                self._refuse(row, f"{name} has a line break in it")
        return texts

    def _own(self, column: pa.Array) -> Iterator[bytes]:
        """Yield the header lines in the column `headers`, whose values are maps or whole header
        blocks.
        """
        if column.null_count == len(column):
            return iter([b""] * len(column))
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return self._blocks(column)
        return (
            b"" if row is None else self._mapped(place, row)
            for place, row in enumerate(column.to_pylist())
        )

    def _blocks(self, column: pa.Array) -> Iterator[bytes]:
        for row, block in enumerate(values(column)):
            if block is None:
                yield b""
            elif not block.startswith(BEGIN) or not block.endswith(b"\r\n\r\n"):
                self._refuse(row, "headers is no header block (NATS/1.0, lines, an empty line)")
            else:
                yield block[len(BEGIN) : -2]

    def _mapped(self, row: int, pairs: Sequence[tuple[str, Any]]) -> bytes:
        lines = []
        for name, found in pairs:
            for value in [found] if found is None or isinstance(found, str) else found:
                text = "" if value is None else value
                if _BAD_NAME.search(name) or _BAD_VALUE.search(text):
                    self._refuse(row, f"header {name!r} with value {text!r} cannot be sent")
                lines.append(f"{name}: {text}\r\n")
        return "".join(lines).encode()

    def _refuse(self, row: int, reason: str) -> None:
        raise RowError(f"row {self._rows + row} of partition {self._partition}: {reason}")


def values(column: pa.Array) -> list[bytes | None]:
    """Return the values of a column of text or bytes as bytes; None for null."""
    found: list[bytes | None] = column.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return found


def blocks(lines: list[bytes]) -> list[bytes]:
    """Complete the header lines of each row to a header block; `b""` if it has none."""
    made = {line: b"%b%b\r\n" % (BEGIN, line) if line else b"" for line in set(lines)}
    return [made[line] for line in lines]
