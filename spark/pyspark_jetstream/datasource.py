"""The format `jetstream`: which class reads and writes what the options ask for.

Only PySpark is imported with this module; whatever else a query needs is imported by it, so that
the search for formats neither fails nor takes long where no stream is read.
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
        options: As the query sets them; they are checked when a reader or writer is made.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "jetstream"

    def schema(self) -> str:
        """The schema as DDL, by the options payload, jsonSchema and columns."""
        from pyspark_jetstream.options import schema_text

        return schema_text(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """The reader of a batch query."""
        from pyspark_jetstream.batch_reader import batch_reader
        from pyspark_jetstream.options import batch_options

        return batch_reader(batch_options(self.options), schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        """The reader of a streaming query."""
        from pyspark_jetstream.options import stream_options
        from pyspark_jetstream.stream_reader import stream_reader

        options = stream_options(self.options)
        if options.mode == "consumer":
            from pyspark_jetstream.consumer_reader import consumer_reader

            return consumer_reader(options, schema)
        return stream_reader(options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """The writer of a batch query."""
        from pyspark_jetstream.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        """The writer of a streaming query, made for each micro-batch and again for its commit."""
        from pyspark_jetstream.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
