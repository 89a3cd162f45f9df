"""Run of the command `jetgate` until its process ends."""

import os
import subprocess
import sys

from tests.support.jetgate import ROOT


def jetgate(
    *arguments: object, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m jetgate` with arguments until it ends; return its exit code and output.

    `environment` is added to the environment of the tests. Raises TimeoutExpired after `timeout`
    seconds.
    """
    return subprocess.run(
        [sys.executable, "-m", "jetgate", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
