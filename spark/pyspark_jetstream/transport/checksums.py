"""Verification of the checksum of stored messages: CRC-32C of header block and payload."""

import pyarrow as pa

from pyspark_jetstream.transport.errors import JetStreamError


def verify_rows(stream: str, rows: pa.RecordBatch) -> None:
    """Check that the checksum of every message fits its header block and payload.

    Raises JetStreamError that names the first sequence with a wrong checksum, or if the package
    `crc32c` is not installed.

    Args:
        stream: Name of the stream, for the error.
        rows: Messages with the columns seq, headers, data and crc.
    """
    try:
        from crc32c import crc32c
    except ImportError:
        raise JetStreamError(
            "option verify=true needs the package crc32c in the Python of the executors: "
            "pip install 'pyspark-jetstream[verify]'"
        ) from None
    columns = (rows.column(name) for name in ("seq", "headers", "data", "crc"))
    for seq, headers, data, crc in zip(*columns, strict=True):
        body = data.as_buffer() if data.is_valid else b""
        start = crc32c(headers.as_buffer()) if headers.is_valid else 0
        if crc32c(body, start) != crc.as_py():
            raise JetStreamError(
                f"stream {stream!r}, sequence {seq.as_py()}: the stored bytes do not have the "
                f"checksum they were stored with"
            )
