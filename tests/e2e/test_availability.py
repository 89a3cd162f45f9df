"""What docs/operations/availability.md promises of a synchronous standby."""

# Subject: storage faults

from pathlib import Path

from tests.e2e.test_database_role import ask
from tests.e2e.test_operations import is_ready, serve, stalled
from tests.support.eventually import eventually
from tests.support.pg import PostgresServer
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.standby import Standby


def test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    with PostgresServer(settings={"fsync": "on"}) as primary:
        dsn = primary.fresh_database()
        where, _, first = dsn.partition("?host=")
        with Standby(dsn, primary.server.data) as standby:
            primary.execute("alter system set synchronous_standby_names = '*'")
            primary.execute("select pg_reload_conf()")
            state = "select sync_state from pg_stat_replication"
            eventually(lambda: ask(dsn, state) == [("sync",)], within=60)
            both = f"{where}?host={first},{standby.dsn.partition('?host=')[2]}"
            port = free_port()  # it is closed and opened again
            with serve(both, tmp_path / "data", "--nats-port", str(port)) as process:
                assert process.ports
                publisher = Publisher((port,))
                try:
                    publisher.wait_for_more()
                    with stalled(primary):  # it answers nobody any more
                        standby.promote()
                        publisher.wait_for_more()
                        publisher.stop()
                        publisher.check(standby.dsn)
                        eventually(lambda: is_ready(process.ports))
                finally:
                    publisher.stop()
