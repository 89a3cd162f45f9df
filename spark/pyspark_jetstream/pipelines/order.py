"""Dependencies between the pipelines of a file: one reads the output of another.

After a failure, they decide which of the later pipelines run.
"""

from collections.abc import Sequence

from pyspark_jetstream.pipelines.declaration import (
    Analytics,
    Archive,
    Bucket,
    CatalogTable,
    Lake,
    Materialize,
    Pipeline,
    Replay,
    Snapshot,
    Table,
    Target,
    Transform,
)


def culprit(
    one: Pipeline, before: Sequence[Pipeline], ended: dict[str, str], *, keep_going: bool
) -> str:
    """Return the name of the failed pipeline that prevents this one from running; "" if none does.

    Args:
        one: The pipeline that would run next.
        before: The pipelines before it in the file.
        ended: Name of each pipeline that failed or did not run, with the name of the one that
            failed.
        keep_going: True to run pipelines that do not depend on a failed one.
    """
    for other in before:
        if other.name in ended and (not keep_going or depends(one, other)):
            return ended[other.name]
    return ""


def depends(one: Pipeline, other: Pipeline) -> bool:
    """Return True if the pipeline `one` reads the output of the pipeline `other`.

    Streams and tables are compared by name alone, without their servers. SQL that contains a path
    or a table name counts as reading it.
    """
    streams, places, tables = _written(other)
    source = one.source
    if isinstance(source, Lake):
        read_streams, read_places = set(), {source.path}
    else:
        read_streams, read_places = set(source.streams), set[str]()
    if isinstance(one, Analytics) and one.events:
        read_streams.add(one.events)
    sql = one.sql if isinstance(one, Transform) else ""
    return (
        bool(streams & read_streams)
        or any(_inside(a, b) or _inside(b, a) for a in places for b in read_places)
        or any(name in sql for name in (*places, *(table.split(".")[-1] for table in tables)))
    )


def _written(one: Pipeline) -> tuple[set[str], set[str], set[str]]:
    """Return the streams, paths and tables that a pipeline writes."""
    match one:
        case Archive():
            return set(), {one.path}, {one.table} if one.table else set()
        case Analytics():
            return set(), {one.path}, set()
        case Replay(target=Target() as target) | Transform(target=Target() as target):
            return {target.stream}, set(), set()
        case Materialize(target=Bucket() as bucket):
            return {f"KV_{bucket.bucket}"}, set(), set()
        case Materialize(target=Table() | CatalogTable() as table):
            return set(), set(), {table.table}
        case Materialize(target=Snapshot() as place) | Transform(target=Snapshot() as place):
            return set(), {place.path}, set()
    return set(), set(), set()


def _inside(place: str, other: str) -> bool:
    return f"{place.rstrip('/')}/".startswith(f"{other.rstrip('/')}/")
