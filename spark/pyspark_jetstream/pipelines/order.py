"""Which pipelines of a file depend on which: those that read what another one writes."""

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
    """The pipeline that failed, wherefore this one is not to run; "" when it is to run.

    Args:
        one: The pipeline.
        before: Those in front of it in the file.
        ended: Of those that failed, or did not run, the one that failed, by name.
        keep_going: Whether those run that do not depend on one that failed.
    """
    for other in before:
        if other.name in ended and (not keep_going or depends(one, other)):
            return ended[other.name]
    return ""


def depends(one: Pipeline, other: Pipeline) -> bool:
    """Whether a pipeline reads what another one writes.

    Streams and tables are known by their names alone, wherever they are. SQL that names a place or
    a table reads it.
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
    """The streams, places and tables that a pipeline writes."""
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
