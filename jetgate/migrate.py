"""`jetgate migrate`: migrates the schema of a database to this release."""

from jetgate.database import Dsn, DsnFile, DsnPasswordFile, WaitForDb, required
from jetgate.logs import Format, Level
from jetgate.run import LogFormat, LogLevel, run


def migrate_command(
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    wait_for_db: WaitForDb = 0,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> None:
    """Bring a database to this release's schema, without serving.

    [bold]Example[/bold]

      jetgate migrate --dsn postgresql://jetgate@db.example/jetgate
    """

    async def work() -> None:
        # Imported late: servers import this module's flags, and must not wait for migrations
        import migrations
        from core.runtime.clock import SystemClock

        database = required(dsn, dsn_file, dsn_password_file, wait_for_db)
        connector = database.connector()
        is_migrated = await database.migrated(connector, SystemClock())
        done = "is now at" if is_migrated else "was already at"
        print(f"the schema in {connector.address} {done} revision {migrations.HEAD}")

    run(work, log_level, log_format)
