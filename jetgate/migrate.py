"""`jetgate migrate`: the schema of a database."""

from jetgate.database import Dsn, DsnFile, DsnPasswordFile, WaitForDb, required
from jetgate.run import Verbose, run


def migrate_command(
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    wait_for_db: WaitForDb = 0,
    verbose: Verbose = False,
) -> None:
    """Bring a database to this release's schema, without serving.

    [bold]Example[/bold]

      jetgate migrate --dsn postgresql://jetgate@db.example/jetgate
    """

    async def work() -> None:
        import migrations  # what serves takes flags from here, and does not wait for these
        from core.runtime.clock import SystemClock
        from core.storage.postgres.migrate import migrate

        database = required(dsn, dsn_file, dsn_password_file, wait_for_db)
        connector = database.connector()
        await database.checked(connector, SystemClock())
        done = "is now at" if await migrate(connector) else "was already at"
        print(f"the schema in {connector.address} {done} revision {migrations.HEAD}")

    run(verbose, work)
