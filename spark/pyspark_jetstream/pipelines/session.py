"""The Spark session of the command: local unless it is told another master."""

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
"""Settings unless others are given: times are those of the streams, and errors are reported."""

LOCAL = "local[*]"
LOCAL_DEFAULTS = {"spark.sql.shuffle.partitions": "4"}
"""Spark's 200 are for a cluster; each of them is a state store that every micro-batch commits."""


def submitted() -> bool:
    """Whether `spark-submit` started this process, and so has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(
    name: str, master: str = "", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Start Spark, or take the session that is there.

    Args:
        name: Of the application, as the UI shows it.
        master: Such as `spark://host:7077`; empty for what spark-submit chose, else `local[*]`.
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
