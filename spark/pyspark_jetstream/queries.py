"""One query of the format and the check of its options, used by the data source and the commands.

The data source, `check`, `run` and `doctor` use the same check, so all accept the same options.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_jetstream.options import ConnectionOptions, ReadOptions, batch_options, stream_options
from pyspark_jetstream.sink.options import WriteOptions, write_options

READ, READ_STREAM, WRITE, WRITE_STREAM = "read", "readStream", "write", "writeStream"
"""Kinds of use of the format, named after the methods of Spark sessions and DataFrames."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the format `jetstream`, before it runs.

    Attributes:
        use: One of `READ`, `READ_STREAM`, `WRITE` and `WRITE_STREAM`.
        options: The options of `format("jetstream")`.
    """

    use: str
    options: Mapping[str, str]

    def checked(self) -> ReadOptions | WriteOptions:
        """Parse the options of the query.

        Raises InvalidOption if one is invalid or unknown.
        """
        if self.use == READ:
            return batch_options(self.options)
        if self.use == READ_STREAM:
            return stream_options(self.options)
        return write_options(self.options, streaming=self.use == WRITE_STREAM)


def connection_of(checked: ReadOptions | WriteOptions) -> ConnectionOptions:
    """Return the options of the connection among the parsed options of a query."""
    return checked.connection


def streams_of(checked: ReadOptions | WriteOptions) -> tuple[str, ...]:
    """Return the streams that a query reads, or the one that the option `stream` of a write names.

    Empty for a write without the option `stream`.
    """
    if isinstance(checked, ReadOptions):
        return checked.streams
    return (checked.stream,) if checked.stream else ()
