"""A query of the format by its options, and the common check of options.

The data source, `check`, `run` and the doctor all use this check, so that none of them accepts
options that another refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_jetstream.options import ConnectionOptions, ReadOptions, batch_options, stream_options
from pyspark_jetstream.sink.options import WriteOptions, write_options

READ, READ_STREAM, WRITE, WRITE_STREAM = "read", "readStream", "write", "writeStream"
"""Uses of the format, named as the methods of a Spark session and a DataFrame."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that is to run.

    Attributes:
        use: One of `READ`, `READ_STREAM`, `WRITE` and `WRITE_STREAM`.
        options: The options of `format("jetstream")`.
    """

    use: str
    options: Mapping[str, str]

    def checked(self) -> ReadOptions | WriteOptions:
        """Return the options as values. Raises InvalidOption."""
        if self.use == READ:
            return batch_options(self.options)
        if self.use == READ_STREAM:
            return stream_options(self.options)
        return write_options(self.options, streaming=self.use == WRITE_STREAM)


def connection_of(checked: ReadOptions | WriteOptions) -> ConnectionOptions:
    """Return the connection options of a query."""
    return checked.connection


def streams_of(checked: ReadOptions | WriteOptions) -> tuple[str, ...]:
    """Return the streams that a query names."""
    if isinstance(checked, ReadOptions):
        return checked.streams
    return (checked.stream,) if checked.stream else ()
