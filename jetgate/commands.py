"""The command `jetgate`: its groups of commands, each in a module of this package."""

import sys
from typing import Annotated

import typer

from core.runtime.standard_streams import keep_standard_streams
from jetgate.migrate import migrate_command
from jetgate.serve import dev, serve
from jetgate.version import version_command

_SERVERS = ("dev", "serve")


def command_line(*, servers_only: bool = False) -> typer.Typer:
    """Return all commands, or those that serve: their start does not wait for the others."""
    cli = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        help="""jetgate: a JetStream server that keeps every message in PostgreSQL.

        Speaks the NATS protocol, REST, and SQL through views.

        [bold]jetgate dev[/bold] starts everything on this machine, PostgreSQL included.
        [bold]jetgate serve --dsn URL[/bold] serves from a PostgreSQL of yours (15 to 18).
        Started several times, each of them serves every client.""",
    )
    cli.callback()(_before_any_command)
    if not servers_only:
        from jetgate.backup import backup_command, restore_command, verify_command
        from jetgate.cluster import cluster_command
        from jetgate.doctor import doctor_command
        from jetgate.reader import readers
        from jetgate.remote import remotes
        from jetgate.status import status_command

        cli.add_typer(remotes, name="remote")
        cli.add_typer(readers, name="reader")
        cli.command("backup")(backup_command)
        cli.command("restore")(restore_command)
        cli.command("verify")(verify_command)
        cli.command("doctor")(doctor_command)
        cli.command("status")(status_command)
        cli.command("cluster")(cluster_command)
    cli.command()(dev)
    cli.command()(serve)
    cli.command("migrate")(migrate_command)
    cli.command("version")(version_command)
    return cli


def _versions(asked: bool) -> None:
    if asked:
        version_command()
        raise typer.Exit


def _before_any_command(
    versions: Annotated[
        bool,
        typer.Option(
            "--version", callback=_versions, is_eager=True, help="What the command version prints."
        ),
    ] = False,
) -> None:
    """Take what stands before a command."""


def main() -> None:
    """The console script."""
    keep_standard_streams()
    cli = command_line(servers_only=sys.argv[1:2] in [[name] for name in _SERVERS])
    cli(prog_name="jetgate")
