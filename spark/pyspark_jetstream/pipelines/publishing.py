"""Publication of a batch's rows to a stream, through the sink of the format."""

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
    """Return options of `format("jetstream")` that write to a stream.

    Args:
        stream: Its name.
        options: Options to reach the servers.
        delivery: One of `DELIVERIES`.
        app: The pipeline's name: its transactions' application, and the prefix of its message ids.
    """
    return {**options, "stream": stream, "delivery": delivery, "txnAppId": app}


def publish(rows: "DataFrame", options: Mapping[str, str], version: int) -> None:
    """Publish a batch; a repeated version is not stored twice.

    Args:
        rows: Rows with `subject`, `data` and `headers`, in order of partitions.
        options: Result of `sink_options`.
        version: The number of the batch, which ascends.
    """
    if options["delivery"] == AT_LEAST_ONCE:
        rows = rows.coalesce(1)  # parallel tasks would mix the order
    writer = rows.write.format("jetstream").options(**options)
    writer.option("txnVersion", str(version)).mode("append").save()
