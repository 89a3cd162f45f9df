"""Publication of the rows of a pipeline's batch to a stream, with Spark's batch writer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRANSACTIONAL, AT_LEAST_ONCE = "transactional", "at-least-once"
DELIVERIES = (TRANSACTIONAL, AT_LEAST_ONCE)
OWN = ("stream", "delivery", "ids", "txnAppId", "txnVersion")
"""Options of `format("jetstream")` for writing that a pipeline sets itself."""


def sink_options(
    stream: str, options: Mapping[str, str], delivery: str, app: str
) -> dict[str, str]:
    """Return the options of `format("jetstream")` that write to a stream.

    Args:
        stream: Name of the stream.
        options: Options of the connection: servers, credentials.
        delivery: One of `DELIVERIES`.
        app: Name of the pipeline: the application of its transactions, and the prefix of its
            message ids.
    """
    return {**options, "stream": stream, "delivery": delivery, "txnAppId": app}


def publish(rows: "DataFrame", options: Mapping[str, str], version: int) -> None:
    """Publish the rows of a batch; if the batch is repeated, the stream stores each message once.

    With `at-least-once` this holds only within the deduplication window of the stream.

    Args:
        rows: Rows with `subject`, `data` and `headers`; partitions are in order.
        options: Result of `sink_options`.
        version: Number of the batch, ascending.
    """
    if options["delivery"] == AT_LEAST_ONCE:
        rows = rows.coalesce(1)  # parallel tasks would mix the order
    writer = rows.write.format("jetstream").options(**options)
    writer.option("txnVersion", str(version)).mode("append").save()
