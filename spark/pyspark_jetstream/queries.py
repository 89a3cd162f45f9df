"""A query of the format by its options, and the one check that all who read options share.

The data source, `check`, `run` and the doctor look at options here, so that none of them takes
what another refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_jetstream.options import ConnectionOptions, ReadOptions, batch_options, stream_options
from pyspark_jetstream.sink.options import WriteOptions, write_options

READ, READ_STREAM, WRITE, WRITE_STREAM = "read", "readStream", "write", "writeStream"
"""How a query uses the format, by the words of a Spark session and a DataFrame."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that is to run.

    Args:
        use: One of `READ`, `READ_STREAM`, `WRITE` and `WRITE_STREAM`.
        options: The options of `format("jetstream")`.
    """

    use: str
    options: Mapping[str, str]

    def checked(self) -> ReadOptions | WriteOptions:
        """The options as values. Raises InvalidOption."""
        if self.use == READ:
            return batch_options(self.options)
        if self.use == READ_STREAM:
            return stream_options(self.options)
        return write_options(self.options, streaming=self.use == WRITE_STREAM)


def connection_of(checked: ReadOptions | WriteOptions) -> ConnectionOptions:
    """How the streams of a query are reached."""
    return checked.connection


def streams_of(checked: ReadOptions | WriteOptions) -> tuple[str, ...]:
    """The streams that a query names."""
    if isinstance(checked, ReadOptions):
        return checked.streams
    return (checked.stream,) if checked.stream else ()
