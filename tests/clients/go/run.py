"""One test of the Go client's suite, in a process of its own, against one server."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.clients.go.build import Suite
from tests.support.jetgate import ROOT
from tests.support.natsserver import binary

COMMANDS = {
    "jetgate": [sys.executable, "-m", "dropin"],
    "nats-server": [binary()],
}
# Seconds for one test. One publishes 100 001 messages one after another, each after its COMMIT.
WITHIN = 600

# A network of its own, with a loopback: the tests have fixed ports.
APART = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@dataclass(frozen=True)
class Outcome:
    """What became of one test. `verdict` is passed, failed or left out (`why`)."""

    suite: str
    test: str
    verdict: str
    why: str = ""
    text: str = ""
    seconds: float = 0.0


def _read(text: str, code: int | None) -> tuple[str, str]:
    """The verdict and its reason."""
    left_out = re.search(r"LEFT OUT: (.+?)(?: \[recovered.*)?$", text, re.MULTILINE)
    if left_out:
        return "left out", left_out.group(1)
    if code is None:
        return "failed", f"did not end within {WITHIN} s"
    if "THE SERVER DID NOT END" in text:
        return "failed", "the server did not end"
    if code == 0:
        skipped = re.search(r"^--- SKIP", text, re.MULTILINE)
        return ("left out", "skips itself") if skipped else ("passed", "")
    said = re.search(r"^\s+\w+_test\.go:\d+: .+|^panic: .+", text, re.MULTILINE)
    return "failed", said.group(0).strip() if said else f"exit code {code}"


def run(suite: Suite, test: str, server: str, *, apart: bool, data: Path | None) -> Outcome:
    """Run it to its end; everything that it started is ended with it.

    `data` is where servers keep what they store while the test lasts.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="official-", dir=data, ignore_cleanup_errors=True
    ) as place:
        log = Path(place) / "server.log"
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            # Compiled once: a server starts in half the time, whatever the caller's environment.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(suite.binary.parent / "pycache"),
            "TMPDIR": place,
            "OFFICIAL_SERVER": shlex.join(COMMANDS[server]),
            "OFFICIAL_LOG": str(log),
        }
        words = [str(suite.binary), "-test.v", "-test.run", f"^{test}$", f"-test.timeout={WITHIN}s"]
        process = subprocess.Popen(
            [*(APART if apart else []), *words],
            cwd=suite.source,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=WITHIN + 10)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            code = None
        # A test that panics leaves its server behind.
        _end(process.pid)
        if code is None:
            text, _ = process.communicate()
        if log.exists():
            text += "\n--- the server's log\n" + log.read_text(errors="replace")
    verdict, why = _read(text, code)
    return Outcome(suite.name, test, verdict, why, text, time.monotonic() - began)


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGTERM)
    except ProcessLookupError:
        return
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
