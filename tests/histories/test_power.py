"""A simulated power cut removes data that PostgreSQL had not flushed, and no other data."""

# Subject: tests

import os
import signal

from tests.histories import power
from tests.support.eventually import eventually
from tests.support.pg import PostgresServer
from tests.support.sql import on


def test_a_power_cut_takes_what_was_not_flushed() -> None:
    settings = {"fsync": "on", "autovacuum": "off"}
    with PostgresServer(settings=settings) as postgres:
        dsn = postgres.dsn
        [(writer,)] = on(dsn, "select pid from pg_stat_activity where backend_type = 'walwriter'")
        postgres.execute("create table kept (n int)")
        postgres.execute("insert into kept values (1)")
        os.kill(writer, signal.SIGSTOP)  # so that the next insert is not flushed
        postgres.execute("set synchronous_commit = off; insert into kept values (2)")
        assert [tuple(row) for row in on(dsn, "select n from kept order by n")] == [(1,), (2,)]
        former = postgres.server.pid
        assert former is not None

        power.simulate_failure(former, dsn, postgres.server.data)

        eventually(lambda: postgres.server.pid not in (None, former))
        assert [tuple(row) for row in on(dsn, "select n from kept")] == [(1,)]
