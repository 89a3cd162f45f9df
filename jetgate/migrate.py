"""`jetgate migrate`: the schema of a database, and the flag that names a database."""

from typing import Annotated

import typer

from jetgate.config import checked_dsn
from jetgate.run import Verbose, run

Dsn = Annotated[
    str,
    typer.Option(envvar="JETGATE_DSN", help="Database: postgresql://user:password@host/name"),
]


def migrate_command(dsn: Dsn, verbose: Verbose = False) -> None:
    """Bring a database to this release's schema, without serving.

    [bold]Example[/bold]

      jetgate migrate --dsn postgresql://jetgate@db.example/jetgate
    """

    import migrations  # what serves takes the flag from here, and does not wait for these
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.migrate import migrate
    from core.storage.postgres.preflight import preflight

    async def work() -> None:
        connector = Connector(checked_dsn(dsn))
        await preflight(connector)
        done = "is now at" if await migrate(connector) else "was already at"
        print(f"the schema in {connector.address} {done} revision {migrations.HEAD}")

    run(verbose, work)
