"""JetStream streams in Apache Spark: `spark.read.format("jetstream")`, without registration.

PySpark imports every top-level module whose name begins with `pyspark_` and looks for
`DefaultSource` there. A module that cannot be imported breaks this search for all of them, so
nothing is imported before that name is asked for.
"""

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Import the data source when it is asked for; a PySpark older than 4.0 finds none."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_jetstream.datasource import JetStreamDataSource
    except ImportError as error:
        raise AttributeError(f"the jetstream format needs PySpark 4.0 or newer: {error}") from error
    return JetStreamDataSource
