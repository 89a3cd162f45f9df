"""The Spark session of the command, local unless another master is given."""

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
"""Default settings: UTC times as in streams, and the log limited to errors."""

LOCAL = "local[*]"
LOCAL_DEFAULTS = {"spark.sql.shuffle.partitions": "4"}
"""Spark's default of 200 suits clusters; every micro-batch commits a state store for each."""


def submitted() -> bool:
    """Return True if `spark-submit` started this process, which then has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(
    name: str, master: str = "", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Start Spark, or return the existing session.

    Args:
        name: Name of the application, as the UI shows it.
        master: Such as `spark://host:7077`; empty for that of spark-submit, else `local[*]`.
        settings: Settings of Spark.
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
