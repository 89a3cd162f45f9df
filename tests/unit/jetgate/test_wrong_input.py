"""What the commands say of wrong input: one line that names it, before anything is begun."""

# Subject: configuration

import pytest
from typer.testing import CliRunner

from core.config.addresses import listen, probe
from core.errors import OperatorError
from dropin.config.options import Options
from jetgate.commands import command_line
from jetgate.run import fail

HOSTS = ["999.1.1.1", "a b", "a..b", ".", "x" * 300, "\udcff", "no.such.host.invalid"]


@pytest.mark.parametrize("host", HOSTS)
def test_invalid_hosts_are_named(host: str) -> None:
    for use in (listen, probe):
        with pytest.raises(OperatorError, match=r"cannot listen for NATS on .*--host"):
            use(host, 0, "NATS")


@pytest.mark.parametrize("port", [-1, 65536, 10**30])
def test_invalid_ports_are_named(port: int) -> None:
    with pytest.raises(OperatorError, match="invalid port"):
        listen("127.0.0.1", port, "HTTP")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "x", "1e999", ""])
@pytest.mark.parametrize("command", [["status", "--seconds"], ["migrate", "--wait-for-db"]])
def test_seconds_are_a_number_that_ends(command: list[str], text: str) -> None:
    done = CliRunner().invoke(command_line(), [*command, text], env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert command[1] in done.output


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "x", "1e999"])
def test_the_drop_in_reads_seconds_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("JETGATE_WAIT_FOR_DB", text)
    options = Options()
    options.jetstream.enabled = True
    with pytest.raises(OperatorError, match=r"JETGATE_WAIT_FOR_DB: .* expected a number"):
        options.complete()


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\x1b[31mb"])
def test_a_fault_is_one_line_whatever_it_names(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as end:
        fail(OperatorError(f"cannot use {name}"))

    assert end.value.code == 1
    line = capsys.readouterr().err
    assert line.startswith("jetgate: cannot use a\\x")
    assert line[:-1].isprintable()
