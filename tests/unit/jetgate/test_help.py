"""What the commands say of themselves fits on a terminal of 80 columns, line for line."""

# Subject: configuration

import inspect
import re

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from jetgate.commands import command_line
from jetgate.remote import remotes

cli = command_line()
COMMANDS = list(get_group(cli).commands)
_MARKUP = re.compile(r"\[/?bold\]")
TEXTS = {
    "jetgate": cli.info.help or "",
    "jetgate remote": remotes.info.help or "",
    **{
        f"{prefix}{command.name or command.callback.__name__}": command.callback.__doc__ or ""
        for prefix, app in (("jetgate ", cli), ("jetgate remote ", remotes))
        for command in app.registered_commands
        if command.callback is not None
    },
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_wrapped_anew(name: str) -> None:
    title, _, rest = inspect.cleandoc(TEXTS[name]).partition("\n\n")

    assert title
    assert [line for line in rest.splitlines() if len(_MARKUP.sub("", line)) > 78] == []


def test_every_command_is_here() -> None:
    assert {"jetgate dev", "jetgate serve", "jetgate migrate", "jetgate remote add"} <= set(TEXTS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_asked_for_is_the_same_alone(name: str) -> None:
    runner = CliRunner()

    alone, among_all = (runner.invoke(app, [name, "--help"]) for app in (command_line(name), cli))

    assert alone.output == among_all.output
    assert alone.exit_code == among_all.exit_code == 0
    assert list(get_group(command_line(name)).commands) == [name]
    assert "Example" in alone.output or name in ("remote", "reader", "version")


def test_an_unknown_command_is_refused_with_the_list_of_commands() -> None:
    assert set(get_group(command_line("servr")).commands) == set(COMMANDS)


def test_the_flag_and_the_command_print_the_same_versions() -> None:
    runner = CliRunner()

    flag, command = runner.invoke(cli, ["--version"]), runner.invoke(cli, ["version"])

    assert flag.exit_code == command.exit_code == 0
    assert flag.output == command.output
    assert flag.output.startswith("jetgate ")
