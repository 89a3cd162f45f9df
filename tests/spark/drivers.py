"""A driver in a process of its own, that is killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.spark import ROOT, environment


class CopyDriver:
    """Copies streams (`copy_driver`) until it is killed; the next query starts another one.

    Args:
        log: What it prints is added to this file.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    def prepare(self) -> None:
        """Have it start, if it does not run; this does not wait for it."""
        self._process = self._process or self._started()

    def start(self, source: dict[str, str], sink: dict[str, str], trigger: dict[str, Any]) -> None:
        """Begin a query; returns before it runs."""
        self.prepare()
        process = self._process
        assert process is not None, "it was just started"
        assert process.stdin is not None, "it is a pipe"
        process.stdin.write(json.dumps([source, sink, trigger]).encode() + b"\n")
        process.stdin.flush()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            self._begin = output.tell()
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copy_driver"],
                cwd=ROOT,
                env=environment(),
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def has_failed(self) -> bool:
        """Whether its query has ended with an error."""
        return "\nfailed: " in self.told()

    def told(self) -> str:
        """What it printed since it was started."""
        return self._log.read_bytes()[self._begin :].decode("utf-8", "replace")

    def kill(self) -> None:
        """kill -9 the driver, its Java and its tasks."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
