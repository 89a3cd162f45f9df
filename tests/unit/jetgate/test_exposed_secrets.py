"""Secrets that a command line shows to everybody: the command says so when it starts."""

# Subject: configuration

import pytest
import typer
from typer.testing import CliRunner

from jetgate import serve as module
from jetgate.commands import command_line

_BCRYPT = "$2b$04$" + "a" * 53


@pytest.mark.parametrize(
    ("arguments", "variables", "shown"),
    [
        (["dev"], {}, []),
        (["dev", "--user", "a", "--pass", "b"], {}, ["--pass"]),
        (["dev", "--user", "a", "--pass=b"], {}, ["--pass"]),
        (["dev", "--auth", _BCRYPT], {}, ["--auth"]),
        (["dev", "--user", "a"], {"JETGATE_PASS": "b"}, []),
        (["dev", "--user", "a", "--pass-file", "f"], {}, []),
        (["dev"], {"JETGATE_AUTH": "t"}, []),
        (
            ["serve", "--user", "a", "--pass", "b", "--system-user", "s", "--system-pass", "t"],
            {},
            ["--pass", "--system-pass"],
        ),
        (["serve", "--dsn", "postgresql://u:p@h/d"], {}, ["--dsn"]),
        (["serve", "--dsn", "host=h password=p"], {}, ["--dsn"]),
        (["serve", "--dsn", "postgresql://h/d?password=p"], {}, ["--dsn"]),
        (["serve", "--dsn", "postgresql://u@h:5432/d"], {}, []),
        (["serve", "--read-dsn", "postgresql://u:p@h/d"], {}, ["--read-dsn"]),
        (["serve"], {"JETGATE_DSN": "postgresql://u:p@h/d"}, []),
    ],
)
def test_secrets_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variables: dict[str, str],
    shown: list[str],
) -> None:
    found: list[list[str]] = []

    def serve(context: typer.Context, *_: object) -> None:
        found.append(module.exposed_secrets(context))

    monkeypatch.setattr(module, "_serve", serve)
    for name in ("JETGATE_AUTH", "JETGATE_PASS", "JETGATE_DSN", "JETGATE_READ_DSN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(command_line(arguments[0]), arguments)

    assert result.exit_code == 0, result.output
    assert found == [shown]
