"""The command line `jetgate`: table of its commands, each in a module of this package."""

import sys
from importlib import import_module
from typing import Annotated

import typer

from core.runtime.standard_streams import keep_standard_streams
from jetgate.version import version_command

_COMMANDS = {
    "remote": "jetgate.remote:remotes",
    "reader": "jetgate.reader:readers",
    "backup": "jetgate.backup:backup_command",
    "restore": "jetgate.backup:restore_command",
    "verify": "jetgate.backup:verify_command",
    "doctor": "jetgate.doctor:doctor_command",
    "status": "jetgate.status:status_command",
    "cluster": "jetgate.cluster:cluster_command",
    "dev": "jetgate.serve:dev",
    "serve": "jetgate.serve:serve",
    "migrate": "jetgate.migrate:migrate_command",
    "version": "jetgate.version:version_command",
}
"""Commands by name: `module:attribute` of a function, or of a typer group of commands."""


def command_line(asked: str = "") -> typer.Typer:
    """Return the typer application with the command `asked`, or with all if `asked` is unknown.

    With one command, only its modules are imported, so it starts faster.
    """
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
    for name in [asked] if asked in _COMMANDS else _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            cli.add_typer(found, name=name)
        else:
            cli.command(name)(found)
    return cli


def _versions(asked: bool) -> None:
    if asked:
        version_command()
        raise typer.Exit


def _before_any_command(
    versions: Annotated[
        bool,
        typer.Option(
            "--version", callback=_versions, is_eager=True, help="Print the versions and exit."
        ),
    ] = False,
) -> None:
    """Accept the options that precede a command, such as `jetgate --version`."""


def main() -> None:
    """Run the command line in `sys.argv`."""
    keep_standard_streams()
    first = "".join(sys.argv[1:2])
    command_line(first.removeprefix("--"))(prog_name="jetgate")
