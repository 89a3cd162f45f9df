"""The lines of the page on backups are lines that the commands take."""

import re
import shlex

import pytest
import typer

from jetgate.commands import command_line
from tests.support.jetgate import ROOT

PAGE = (ROOT / "docs" / "operations" / "backup.md").read_text()
LINES = re.findall(r"^    jetgate (.*)$", PAGE, re.MULTILINE)


def test_every_command_is_on_the_page() -> None:
    assert {line.split()[0] for line in LINES} == {"backup", "restore", "verify"}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_taken(line: str) -> None:
    name, *arguments = shlex.split(line.replace("$(date +%F)", "today"))
    group = typer.main.get_group(command_line())
    command = group.commands[name]

    context = command.make_context(name, arguments)  # raises for an option that there is not

    assert context.args == []
