"""The identity of a writing task: query, batch and partition."""

from dataclasses import dataclass

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_RUN = "spark.jobGroup.id"
"""Local properties of the tasks of a streaming query; its job group is its run."""


@dataclass(frozen=True, slots=True)
class Task:
    """The place of a task in Spark.

    Attributes:
        partition: The number of the partition.
        query: Id of the streaming query in its checkpoint; "" for others.
        batch: The number of its micro-batch; -1 for others.
        run: The run of that query; "" for others.
    """

    partition: int
    query: str
    batch: int
    run: str


def this_task() -> Task:
    """Return the identity of the calling task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "called in a task"
    query = context.getLocalProperty(_QUERY) or ""
    if not query:
        return Task(context.partitionId(), "", -1, "")
    return Task(
        context.partitionId(),
        query,
        int(context.getLocalProperty(_BATCH) or -1),
        context.getLocalProperty(_RUN) or "",
    )
