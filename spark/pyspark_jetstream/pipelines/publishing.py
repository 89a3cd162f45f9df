"""Publishes the rows of a batch to a stream, through the sink of the format."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRANSACTIONAL, AT_LEAST_ONCE = "transactional", "at-least-once"
DELIVERIES = (TRANSACTIONAL, AT_LEAST_ONCE)
OWN = ("stream", "delivery", "ids", "txnAppId", "txnVersion")
"""Options of the sink that a pipeline sets itself."""


def sink_options(
    stream: str, options: Mapping[str, str], delivery: str, app: str
) -> dict[str, str]:
    """Options of `format("jetstream")` that write to a stream.

    Args:
        stream: Its name.
        options: Options to reach the servers.
        delivery: One of `DELIVERIES`.
        app: The pipeline, which names its transactions and begins its message ids.
    """
    return {**options, "stream": stream, "delivery": delivery, "txnAppId": app}


def publish(rows: "DataFrame", options: Mapping[str, str], version: int) -> None:
    """Publish a batch; one of the same version that was published before is not repeated.

    Args:
        rows: With `subject`, `data` and `headers`, in order of partitions.
        options: What `sink_options` gave.
        version: The number of the batch, which ascends.
    """
    if options["delivery"] == AT_LEAST_ONCE:
        rows = rows.coalesce(1)  # tasks side by side would mix the order
    writer = rows.write.format("jetstream").options(**options)
    writer.option("txnVersion", str(version)).mode("append").save()
