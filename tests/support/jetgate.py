"""A jetgate server in a process of its own, on free ports: `jetgate dev` or `jetgate serve`."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

from tests.support.eventually import eventually
from tests.support.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]


class JetgateServer:
    """One `jetgate` server process; it keeps its data directory and ports over `restart`.

    Args:
        flags: Further flags of the command.
        module: The module for `python -m`; tests of faults pass one that wraps the command.
        env: Additional environment variables of the process.
        dsn: Connection string of a PostgreSQL for `jetgate serve`; empty runs `jetgate dev`, which
            has an embedded one.
        in_memory: Keep the data in a file system in memory if it has enough space, so that the
            disk does not slow the server.
    """

    def __init__(
        self,
        *flags: str,
        module: str = "jetgate",
        env: dict[str, str] | None = None,
        dsn: str = "",
        in_memory: bool = False,
    ) -> None:
        self.dir = scratch("jetgate-") if in_memory else Path(mkdtemp(prefix="jetgate-"))
        self.data = self.dir / "data"
        self.flags = flags
        self.module = module
        self.command = ["serve", "--dsn", dsn] if dsn else ["dev"]
        self.env = env or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)
        self.http = ("127.0.0.1", 0)

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def start(self, *, within: float = 120.0) -> Self:
        """Start the process and wait until it has written its addresses.

        Raises:
            RuntimeError: The process has ended.
            AssertionError: The process has not written its addresses after `within` seconds.
        """
        ports = self.data / "ports.json"
        ports.unlink(missing_ok=True)
        flags = ["--nats-port", str(self.address[1]), "--http-port", str(self.http[1])]
        command = [sys.executable, "-m", self.module, *self.command]
        command += ["--data", str(self.data), *flags, *self.flags]
        with (self.dir / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **self.env}
            )
        urls = eventually(lambda: self._urls(ports), within=within)
        self.address = _address(urls["nats"])
        self.http = _address(urls["http"])
        return self

    def _urls(self, ports: Path) -> dict[str, str]:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"jetgate ended with {self.process.returncode}: {self.log()}")
        try:
            return dict(json.loads(ports.read_text()))
        except (FileNotFoundError, ValueError):
            return {}

    def log(self, characters: int = 4000) -> str:
        """Return the last characters of the output of the process."""
        return (self.dir / "log").read_text(errors="replace")[-characters:]

    def kill(self) -> None:
        """Kill the node with SIGKILL. Its embedded PostgreSQL ends later, or at the next start."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill_postgres(self) -> list[int]:
        """Kill all processes of the node's embedded PostgreSQL with SIGKILL; return their ids."""
        family = _descendants(self.pid)
        victims = [pid for pid in family if "postgres" in _command(pid)]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return victims

    def await_removal(self) -> None:
        """Do nothing: jetgate keeps no files of streams. `NatsServer` has the same method."""

    def stop(self) -> None:
        """Stop the process with SIGINT (with SIGKILL after 30 seconds), then delete its data."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None
        shutil.rmtree(self.dir, ignore_errors=True)

    def restart(self) -> None:
        """Kill the node with SIGKILL and start it again on the same ports and data."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _address(url: str) -> tuple[str, int]:
    host, port = url.split("://", 1)[1].rstrip("/").rsplit(":", 1)
    return host, int(port)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    wave = [root]
    while wave:
        wave = [child for pid in wave for child in children.get(pid, [])]
        found += wave
    return found
