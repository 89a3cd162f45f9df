"""What the commands say of themselves fits on a terminal of 80 columns, line for line."""

import inspect
import re

import pytest
from typer.testing import CliRunner

from jetgate.commands import command_line
from jetgate.remote import remotes

cli = command_line()
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


def test_the_flag_and_the_command_print_the_same_versions() -> None:
    runner = CliRunner()

    flag, command = runner.invoke(cli, ["--version"]), runner.invoke(cli, ["version"])

    assert flag.exit_code == command.exit_code == 0
    assert flag.output == command.output
    assert flag.output.startswith("jetgate ")
