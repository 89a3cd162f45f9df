"""A PostgreSQL table of the latest message by subject, which Spark tasks write through ADBC.

A row is replaced only by a message with a higher sequence, so writing a batch again has no effect.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from pyspark_jetstream.options import checked_dsn
from pyspark_jetstream.transport.adbc import AdbcSession
from pyspark_jetstream.transport.errors import NotReachable
from pyspark_jetstream.values import Secret

TYPES = {
    "string": "text",
    "int64": "bigint",
    "int32": "integer",
    "int16": "smallint",
    "bool": "boolean",
    "double": "double precision",
    "float": "real",
    "binary": "bytea",
}
"""PostgreSQL types by Arrow type. Times become `timestamptz`; any other type becomes text."""

RESULT = "written bigint, deleted bigint"
"""Schema of the counts that a task returns, as DDL."""


def create(dsn: str, table: str, schema: pa.Schema) -> None:
    """Create the target table if it does not exist, with `subject` as the primary key.

    Args:
        dsn: Connection string, or `env:NAME`, `file:PATH`.
        table: Name of the table, with or without a schema.
        schema: Arrow schema of the rows; the column `deleted` is left out.
    """
    columns = ", ".join(f"{quoted(f.name)} {_type(f.type)}" for f in schema if f.name != "deleted")
    with connected(dsn) as session:
        session.execute(
            f"create table if not exists {named(table)} ({columns}, primary key (subject))"
        )
        session.commit()


@dataclass(frozen=True, slots=True)
class Upsert:
    """Writer of the rows of one Spark task to the target table, for `DataFrame.mapInArrow`.

    Attributes:
        dsn: Connection string, or `env:NAME`, `file:PATH` of the machine that runs the task.
        table: Name of the table, with or without a schema.
    """

    dsn: str
    table: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows in one transaction; yield the numbers of written and deleted rows."""
        rows = [batch for batch in batches if batch.num_rows]
        written = deleted = 0
        if rows:
            table = pa.Table.from_batches(rows)
            with connected(self.dsn) as session:
                written, deleted = self._write(session, table)
                session.commit()
        yield pa.RecordBatch.from_pydict({"written": [written], "deleted": [deleted]})

    def _write(self, session: AdbcSession, rows: pa.Table) -> tuple[int, int]:
        names = [name for name in rows.column_names if name != "deleted"]
        columns = ", ".join(quoted(name) for name in names)
        values = ", ".join(f"excluded.{quoted(name)}" for name in names)
        session.ingest("jetstream_batch", rows)
        target = named(self.table)
        merge = (
            f"with gone as (delete from {target} t using jetstream_batch b where b.deleted"
            " and t.subject = b.subject and t.seq < b.seq returning 1),"
            f" put as (insert into {target} ({columns}) select {columns} from jetstream_batch"
            f" where not deleted order by subject on conflict (subject) do update"
            f" set ({columns}) = row({values}) where {target}.seq < excluded.seq returning 1)"
            " select (select count(*) from put) as written, (select count(*) from gone) as deleted"
        )
        with closing(session.query(merge)) as found:
            (counted,) = found.reader.read_all().to_pylist()
        return int(counted["written"]), int(counted["deleted"])


def connected(dsn: str) -> AdbcSession:
    """Open a connection to PostgreSQL without autocommit.

    Raises NotReachable if the database does not accept it, InvalidOption if the connection string
    is invalid.
    """
    from adbc_driver_manager import Error

    secret = Secret("target.dsn", dsn)
    text = checked_dsn(secret)
    try:
        return AdbcSession(text, autocommit=False)
    except Error as error:  # its text may contain the connection string
        raise NotReachable(
            f"target.dsn is set, expected a database that can be reached: "
            f"{secret.without(str(error))}"
        ) from None


def quoted(name: str) -> str:
    """Quote a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def named(table: str) -> str:
    """Quote the name of a table, with or without a schema, for SQL."""
    return ".".join(quoted(part) for part in table.split("."))


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamptz"
    return TYPES.get(str(kind), "text")
