"""Flags that are declared once, as a group, and taken by several commands."""

# Subject: configuration

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from jetgate.flag_groups import grouped


@dataclass(frozen=True)
class Place:
    """Where it is."""

    street: Annotated[str, typer.Option("--road", envvar="TEST_ROAD", help="Its street.")] = "here"
    number: Annotated[int, typer.Option(min=1)] = 7


def printed(*words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    app = typer.Typer()

    @app.command()
    @grouped
    def show(*, loud: bool = False, place: Place) -> None:
        """Show a place."""
        typer.echo(f"{place.street} {place.number}{'!' if loud else ''}")

    result = CliRunner().invoke(app, words, env=env)
    return result.exit_code, result.output.strip()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "here 7"),
        (("--road", "there"), "there 7"),
        (("--number", "9", "--loud"), "here 9!"),
    ],
)
def test_a_group_is_made_of_its_flags(words: tuple[str, ...], text: str) -> None:
    assert printed(*words) == (0, text)


def test_flags_of_a_group_have_help_variables_and_limits() -> None:
    assert printed(env={"TEST_ROAD": "far"}) == (0, "far 7")
    assert "Its street." in printed("--help")[1]
    code, text = printed("--number", "0")
    assert code == 2
    assert "--number" in text
