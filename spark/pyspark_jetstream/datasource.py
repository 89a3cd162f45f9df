"""The entry point of the format `jetstream`: selects the reader or writer class by the options.

This module imports PySpark alone; each kind of query imports its modules when it is created. So
Spark's search for formats neither fails nor slows down a query of another format.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class JetStreamDataSource(DataSource):
    """`format("jetstream")` of `spark.read`, `readStream`, `write` and `writeStream`.

    Args:
        options: Options as the query sets them; checked when a reader or writer is created.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        """Return the name of the format, `jetstream`."""
        return "jetstream"

    def schema(self) -> str:
        """Return the columns of a read as DDL.

        The options `payload`, `jsonSchema` and `columns` determine them.
        """
        from pyspark_jetstream.options import schema_text

        return schema_text(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """Return the reader of a batch query. Raises InvalidOption if an option is invalid."""
        from pyspark_jetstream.batch_reader import batch_reader
        from pyspark_jetstream.options import batch_options

        return batch_reader(batch_options(self.options), schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        """Return the reader of a streaming query, by the option `mode`: `log` or `consumer`.

        Raises InvalidOption if an option is invalid.
        """
        from pyspark_jetstream.options import stream_options
        from pyspark_jetstream.stream_reader import stream_reader

        options = stream_options(self.options)
        if options.mode == "consumer":
            from pyspark_jetstream.consumer_reader import consumer_reader

            return consumer_reader(options, schema)
        return stream_reader(options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Return the writer of a batch query. Raises InvalidOption if an option is invalid."""
        from pyspark_jetstream.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        """Return the writer of a streaming query. Spark calls it for each micro-batch and each
        commit.

        Raises InvalidOption if an option is invalid.
        """
        from pyspark_jetstream.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
