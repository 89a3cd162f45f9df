"""JetStream streams in Apache Spark: `spark.read.format("jetstream")`, without registration.

PySpark imports every top-level module whose name begins with `pyspark_` and looks for
`DefaultSource` there. One module that fails to import breaks this search for all formats. So this
module imports the data source only when `DefaultSource` is accessed.
"""

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Import the data source on the first access to `DefaultSource`.

    Raises AttributeError for any other name, and for `DefaultSource` with a PySpark older than 4.0.
    """
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_jetstream.datasource import JetStreamDataSource
    except ImportError as error:
        raise AttributeError(f"the jetstream format needs PySpark 4.0 or newer: {error}") from error
    return JetStreamDataSource
