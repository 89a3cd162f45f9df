"""The command `jetgate`: its groups of commands, each in a module of this package."""

from typing import Annotated

import typer

from core.runtime.standard_streams import keep_standard_streams
from jetgate.migrate import migrate_command
from jetgate.remote import remotes
from jetgate.serve import dev, serve
from jetgate.version import version_command

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""jetgate: a JetStream server that keeps every message in PostgreSQL.

    Speaks the NATS protocol, REST, and SQL through views.

    [bold]jetgate dev[/bold] starts everything on this machine, PostgreSQL included.
    [bold]jetgate serve --dsn URL[/bold] serves from a PostgreSQL of yours (15 to 18).""",
)

cli.add_typer(remotes, name="remote")
cli.command()(dev)
cli.command()(serve)
cli.command("migrate")(migrate_command)
cli.command("version")(version_command)


def _versions(asked: bool) -> None:
    if asked:
        version_command()
        raise typer.Exit


@cli.callback()
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
    cli(prog_name="jetgate")


if __name__ == "__main__":
    main()
