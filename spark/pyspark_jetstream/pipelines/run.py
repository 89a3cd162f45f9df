"""Execution of the pipelines of a file in one Spark session, one after another or in parallel."""

import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TextIO

from pyspark_jetstream.pipelines.analysing import run_analytics
from pyspark_jetstream.pipelines.archiving import run_archive
from pyspark_jetstream.pipelines.context import Context, hang_up, nothing
from pyspark_jetstream.pipelines.declaration import (
    Analytics,
    Archive,
    Materialize,
    Pipeline,
    Replay,
    Transform,
)
from pyspark_jetstream.pipelines.materializing import run_materialize
from pyspark_jetstream.pipelines.order import culprit
from pyspark_jetstream.pipelines.progress import Progress
from pyspark_jetstream.pipelines.replaying import run_replay
from pyspark_jetstream.pipelines.report import Report
from pyspark_jetstream.pipelines.transforming import run_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    pipelines: Sequence[Pipeline],
    spark: "SparkSession",
    *,
    keep_going: bool = False,
    stop: threading.Event | None = None,
    out: TextIO | None = None,
    at: Callable[[str], None] = nothing,
) -> list[Report]:
    """Run pipelines and return a report of each.

    Pipelines run one after another. After a failure, the later ones do not run, because they may
    read the output of the failed one; their reports name the reason. If any pipeline has `every`,
    all run in parallel.

    Args:
        pipelines: The pipelines, in order.
        spark: The Spark session.
        keep_going: True to run, after a failure, the pipelines that do not read the output of the
            failed one.
        stop: Set to end each pipeline after its current batch.
        out: Output of progress; None for standard error.
        at: Called with the name of each point between two steps, for tests.
    """
    stop = stop or threading.Event()
    if len(pipelines) > 1 and any(_forever(one) for one in pipelines):
        with ThreadPoolExecutor(len(pipelines)) as pool:
            return list(pool.map(lambda one: _beside(one, spark, stop, out, at), pipelines))
    reports: list[Report] = []
    ended: dict[str, str] = {}
    for place, one in enumerate(pipelines):
        failed = culprit(one, pipelines[:place], ended, keep_going=keep_going)
        if failed:
            reports.append(Report(one.name, one.kind, not_run=f"because {failed} failed"))
            ended[one.name] = failed
            continue
        reports.append(_run_one(one, spark, stop, out, at))
        if reports[-1].failed:
            ended[one.name] = one.name
    return reports


def _forever(one: Pipeline) -> bool:
    limits = getattr(one, "limits", None)
    return (limits.every if limits else getattr(one, "every", None)) is not None


def _beside(
    one: Pipeline,
    spark: "SparkSession",
    stop: threading.Event,
    out: TextIO | None,
    at: Callable[[str], None],
) -> Report:
    try:
        return _run_one(one, spark, stop, out, at)
    finally:
        hang_up(spark)


def _run_one(
    one: Pipeline,
    spark: "SparkSession",
    stop: threading.Event,
    out: TextIO | None,
    at: Callable[[str], None],
) -> Report:
    report = Report(one.name, one.kind)
    progress = Progress(one.name, out)
    context = Context(spark, progress, report, stop, at)
    try:
        _dispatch(one, context)
    except Exception as error:
        report.failed = reason(error)
    report.seconds = round(progress.seconds, 3)
    return report


def _dispatch(one: Pipeline, context: Context) -> None:
    match one:
        case Archive():
            run_archive(one, context)
        case Replay():
            run_replay(one, context)
        case Materialize():
            run_materialize(one, context)
        case Transform():
            run_transform(one, context)
        case Analytics():
            run_analytics(one, context)


def reason(error: Exception) -> str:
    """Return the reason of a failure as one line: the innermost cause in Spark's error text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, rest = line.partition(": ")
        if colon and name.startswith("pyspark_jetstream.") and rest:
            return rest
    if not lines:
        return traceback.format_exception_only(error)[-1].strip()
    return lines[0]
