"""A connection to PostgreSQL by the low-level classes of ADBC, which return Arrow batches.

ADBC's DB-API imports `pyarrow.dataset`, and so pandas: half a second of CPU time in each process
that Spark starts. Errors are those of `adbc_driver_manager`, with the attribute `sqlstate`.
"""

import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcStatement

_BATCH_BYTES = 4 * 1024 * 1024


class Rows:
    """The result of a query, an iterator of Arrow batches as they arrive. The caller closes it.

    Iteration raises `pyarrow.ArrowException` or OSError if the connection breaks.
    """

    def __init__(
        self, session: "AdbcSession", statement: "AdbcStatement", reader: pa.RecordBatchReader
    ) -> None:
        self._session = session
        self._statement = statement
        self.reader = reader
        self.is_over = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.reader
        self.is_over = True

    def close(self) -> None:
        """Close the result and discard the rows that are not read."""
        self._session.forget(self)
        self.reader.close()
        self._statement.close()


class AdbcSession:
    """One connection to PostgreSQL.

    Args:
        dsn: Connection string. Error texts may repeat it, with the password.
        autocommit: True to make each statement a transaction; False to end a transaction by
            `commit`.

    Raises:
        ImportError: The driver is not installed.
        adbc_driver_manager.Error: The connection failed.
    """

    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        from adbc_driver_manager import AdbcConnection
        from adbc_driver_postgresql import connect

        self._open: weakref.WeakSet[Rows] = weakref.WeakSet()
        self._has_rest = False
        self._database = connect(dsn)
        try:
            self._connection = AdbcConnection(self._database)
            if not autocommit:
                self._connection.set_autocommit(False)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_clean(self) -> bool:
        """True if every result was read to its end, so that the connection can be reused."""
        return not self._has_rest and all(rows.is_over for rows in self._open)

    def forget(self, rows: Rows) -> None:
        """Remove a closed result from the open ones; record whether it has unread rows."""
        self._has_rest = self._has_rest or not rows.is_over
        self._open.discard(rows)

    def close(self) -> None:
        """Close all results and the connection; PostgreSQL rolls back uncommitted changes."""
        for rows in list(self._open):
            rows.close()
        self._connection.close()
        self._database.close()

    def commit(self) -> None:
        """Commit the transaction and begin another."""
        self._connection.commit()

    def execute(self, query: str) -> None:
        """Run an SQL statement without a result."""
        with self._statement() as statement:
            statement.set_sql_query(query)
            statement.execute_update()

    def query(self, query: str) -> Rows:
        """Run an SQL statement and return its result."""
        statement = self._statement()
        try:
            statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            rows = Rows(self, statement, pa.RecordBatchReader.from_stream(stream))
        except BaseException:
            statement.close()
            raise
        self._open.add(rows)
        return rows

    def ingest(self, table: str, rows: pa.Table) -> None:
        """Create a temporary table with the given name, columns and rows."""
        with self._statement() as statement:
            statement.set_options(
                **{
                    "adbc.ingest.target_table": table,
                    "adbc.ingest.mode": "adbc.ingest.mode.create",
                    "adbc.ingest.temporary": "true",
                }
            )
            statement.bind_stream(rows)
            statement.execute_update()

    def _statement(self) -> "AdbcStatement":
        from adbc_driver_manager import AdbcStatement

        return AdbcStatement(self._connection)
