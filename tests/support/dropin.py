"""Runs of nats-server and of `jetgate-nats-server`, its replacement, with the same arguments."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import ROOT
from tests.support.natsserver import binary

NAMES = ("jetgate-nats-server", "nats-server")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Yield the name of each command in turn."""
    return str(request.param)


def config(directory: Path, *lines: str) -> str:
    """Write a configuration with a free port on 127.0.0.1 and these lines; return its path."""
    path = directory / "server.conf"
    path.write_text("\n".join(("host: 127.0.0.1", "port: -1", *lines, "")))
    return str(path)


def command(name: str) -> list[str]:
    """Return the command line for a name in `NAMES`, without arguments."""
    return [binary()] if name == "nats-server" else [sys.executable, "-m", "dropin"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in `NAMES` until it ends; return its exit code and output.

    Raises TimeoutExpired after 60 seconds.
    """
    return subprocess.run(
        [*command(name), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env=environment(),
    )


class DropIn:
    """A server process in the background; a context manager that stops it.

    Args:
        name: The command, one of `NAMES`.
        arguments: Its arguments.
        how: Arguments of `Popen` that replace the defaults. By default stderr, which gets the log,
            goes to a temporary file.
    """

    def __init__(self, name: str, *arguments: str, **how: Any) -> None:
        self.name = name
        self.dir = tempfile.TemporaryDirectory(prefix="dropin-", ignore_cleanup_errors=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        usual: dict[str, Any] = {
            "stderr": self._log,
            "stdout": subprocess.DEVNULL,
            "env": environment(),
        }
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [*command(name), "--ports_file_dir", self.dir.name, *arguments], **(usual | how)
        )

    @property
    def ports_file(self) -> Path:
        return Path(self.dir.name) / f"{self.name}_{self.process.pid}.ports"

    def ports(self) -> dict[str, list[str]]:
        """Wait until the server is ready; return its URLs by service, from its ports file.

        Raises RuntimeError if the process ends, AssertionError after 120 seconds.
        """

        def look() -> dict[str, list[str]] | None:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.log()}")
            try:
                return dict(json.loads(self.ports_file.read_text()))
            except (FileNotFoundError, ValueError):
                return None

        found = eventually(look, within=120)
        assert found is not None
        return found

    @property
    def url(self) -> str:
        return self.ports()["nats"][0]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("nats://").rpartition(":")
        return host, int(port)

    def get(self, path: str) -> tuple[int, str]:
        """Return the HTTP status and the text of a page of the monitoring port."""
        address = self.ports()["monitoring"][0] + path
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def page(self, path: str) -> dict[str, Any]:
        status, text = self.get(path)
        assert status == 200, text
        return dict(json.loads(text))

    def log(self) -> str:
        # No seek: the process writes through the same open file and shares its offset.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def texts(self) -> list[str]:
        """Return the log lines without process id and time, such as `[INF] Server is ready`."""
        shape = r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (\[[A-Z]{3}\].*)"
        found = (re.fullmatch(shape, line) for line in self.log().splitlines())
        return [match[1] for match in found if match is not None]

    def until(self, text: str) -> None:
        """Wait up to 60 seconds until the log contains a text."""
        eventually(lambda: text in self.log(), within=60)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, within: float = 60) -> int:
        """Wait until the process ends and return its exit code.

        Raises TimeoutExpired after `within` seconds.
        """
        return self.process.wait(within)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()
        self.dir.cleanup()
