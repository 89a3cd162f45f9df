"""The command `jetgate reader`: manages PostgreSQL roles that may read streams with SQL."""

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import ConfigError, OperatorError, Unavailable
from core.model.names import is_valid_name
from core.node.database import Database
from core.storage.postgres.readers import ALL_STREAMS, PostgresReaders, ReadLimits
from jetgate.config import DATA_DIRECTORY
from jetgate.database import (
    Data,
    Dsn,
    DsnFile,
    DsnPasswordFile,
    connector_of,
    given,
    open_database,
)
from jetgate.run import fail

PASSWORD_VARIABLE = "JETGATE_READER_PASSWORD"

readers = typer.Typer(
    no_args_is_help=True,
    help="""Roles of PostgreSQL that may read streams with SQL, and nothing else.

    A reader sees the streams that it was given, in the views of schema
    [bold]jetgate[/bold]; docs/sql.md has them.

    [bold]Examples[/bold]

      jetgate reader create analyst --stream ORDERS --stream PAYMENTS

      jetgate reader create spark --all-streams --password-file /run/secrets/spark

      jetgate reader list""",
)

Name = Annotated[str, typer.Argument(help="The name of the role.")]


@readers.command("create")
def create_command(
    name: Name,
    stream: Annotated[
        list[str], typer.Option(help="Stream that the role may read; repeatable.")
    ] = [],  # noqa: B006 (typer copies it)
    all_streams: Annotated[
        bool, typer.Option("--all-streams", help="All streams of the account, also later ones.")
    ] = False,
    account: Annotated[str, typer.Option(help="The account of the streams.")] = "$G",
    password_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the password; default: ${PASSWORD_VARIABLE}, or asked."),
    ] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="For peer, certificate or trust authentication.")
    ] = False,
    existing: Annotated[
        bool, typer.Option("--existing", help="Use an existing role, or grant it more streams.")
    ] = False,
    statement_seconds: Annotated[
        int,
        typer.Option(help="statement_timeout of the role: running queries hold up vacuum.", min=1),
    ] = ReadLimits().statement,
    idle_seconds: Annotated[
        int, typer.Option(help="Its idle_in_transaction_session_timeout.", min=1)
    ] = ReadLimits().idle,
    connections: Annotated[
        int, typer.Option(help="Connection limit of the role.", min=1)
    ] = ReadLimits().connections,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Create a role that may read streams with SQL.

    The password comes from a file, the environment or a prompt, and leaves
    this process only as a SCRAM verifier.

    [bold]Examples[/bold]

      jetgate reader create analyst --stream ORDERS

      JETGATE_READER_PASSWORD=... jetgate reader create spark --all-streams --dsn postgresql://...
    """
    if all_streams == bool(stream):
        raise typer.BadParameter("name streams with --stream, or use --all-streams")
    if invalid := [each for each in stream if not is_valid_name(each)]:
        raise typer.BadParameter(f"--stream: no stream can be named {invalid[0]!r}")
    names = [ALL_STREAMS] if all_streams else stream
    limits = ReadLimits(statement_seconds, idle_seconds, connections)

    async def work() -> None:
        database = given(dsn, dsn_file, dsn_password_file)
        connector = await connector_of(database, data)
        # The PostgreSQL of jetgate dev accepts every user with access to its directory, without
        # passwords.
        wants_none = no_password or existing or database is None
        password = "" if wants_none and password_file is None else _password(password_file, name)
        store = PostgresReaders(await open_database(connector))
        await store.create(name, password, account, names, limits, existing=existing)
        what = "all streams" if all_streams else ", ".join(stream)
        print(f"reader {name} may read {what} of {account}")
        print(f"  psql '{connector.parts.url(user=name)}' -c 'select * from jetgate.heads'")

    _run(work)


@readers.command("list")
def list_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Show all readers and their streams.

    [bold]Example[/bold]

      jetgate reader list --json
    """

    async def work() -> None:
        found = await (await _open(given(dsn, dsn_file, dsn_password_file), data)).readers()
        if as_json:
            members = [
                {"role": r.role, "streams": [{"account": a, "stream": s} for a, s in r.grants]}
                for r in found
            ]
            print(json.dumps(members, indent=2))
        elif not found:
            print("no readers yet: jetgate reader create NAME --stream STREAM")
        for reader in [] if as_json else found:
            print(f"{reader.role}: {', '.join(f'{a}/{s}' for a, s in reader.grants)}")

    _run(work)


@readers.command("drop")
def drop_command(
    name: Name,
    keep_role: Annotated[
        bool, typer.Option("--keep-role", help="Revoke the rights but keep the role.")
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Take a reader's rights away, and drop its role.

    [bold]Example[/bold]

      jetgate reader drop analyst
    """

    async def work() -> None:
        store = await _open(given(dsn, dsn_file, dsn_password_file), data)
        if not await store.drop(name, keep_role=keep_role):
            raise OperatorError(f"there is no reader {name}")
        print(f"reader {name} dropped")

    _run(work)


def _password(file: Path | None, name: str) -> str:
    """Return the password for a new role: from the file, the environment or a prompt.

    Raises OperatorError if there is none, or it is empty.
    """
    if file is not None:
        try:
            password = file.read_text().rstrip("\r\n")
        except OSError as error:
            raise OperatorError(f"cannot read {file}: {error.strerror}") from error
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    elif sys.stdin.isatty():
        password = getpass.getpass(f"Password of {name}: ")
    else:
        raise OperatorError(
            f"no password: set {PASSWORD_VARIABLE}, or --password-file, or --no-password"
        )
    if not password:
        raise OperatorError("the password is empty: --no-password creates a role without one")
    return password


async def _open(database: Database | None, data: Path) -> PostgresReaders:
    return PostgresReaders(await open_database(await connector_of(database, data)))


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.run(work())
    except (OperatorError, ConfigError, Unavailable) as error:
        fail(error)
