"""The Spark session of the commands `run` and `doctor`."""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Default settings of the session: times in UTC, and only errors in the log."""

LOCAL = "local[*]"
LOCAL_DEFAULTS = {"spark.sql.shuffle.partitions": "4"}
"""Settings of a local master. Spark's 200 partitions suit clusters: each has a state store."""


def submitted() -> bool:
    """Return True if `spark-submit` started this process; the master is then already chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(
    name: str, master: str = "", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Start a Spark session, or return the existing one.

    Args:
        name: Name of the application, as Spark's UI shows it.
        master: Master URL such as `spark://host:7077`; empty for that of spark-submit, else
            `local[*]`.
        settings: Settings of Spark, which replace the defaults.
    """
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.appName(name)
    defaults = DEFAULTS
    if master or not submitted():
        builder = builder.master(master or LOCAL)
        if (master or LOCAL).startswith("local"):
            defaults = {**DEFAULTS, **LOCAL_DEFAULTS}
    for key, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
