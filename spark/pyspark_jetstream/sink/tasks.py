"""The identity of a writing Spark task: streaming query, run, batch and partition."""

from dataclasses import dataclass

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_RUN = "spark.jobGroup.id"
"""Local properties of the tasks of a streaming query; its job group is the id of its run."""


@dataclass(frozen=True, slots=True)
class Task:
    """The identity of a Spark task.

    Attributes:
        partition: Number of the partition.
        query: Id of the streaming query, from its checkpoint; "" for a batch query.
        batch: Number of the micro-batch; -1 for a batch query.
        run: Id of the run of the streaming query; "" for a batch query.
    """

    partition: int
    query: str
    batch: int
    run: str


def this_task() -> Task:
    """Return the identity of the Spark task that calls this function."""
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
