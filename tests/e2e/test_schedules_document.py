"""The lines of docs/features/schedules.md answer, in order, what it shows."""

# Subject: documents

import re
import shutil
import subprocess

import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer

TEXT = (ROOT / "docs" / "features" / "schedules.md").read_text()
BLOCK = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
# A prompt, what is typed behind it and in deeper lines, and what is shown below.
STEP = re.compile(r"^\$ (.*\n(?:   +.*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)
# When the next output comes, and what was given a sequence meanwhile, is another each time.
CHANGING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\"seq\":\d+|(?<=nats-sequence: )\d+")
FIRST = 'set -e\ncurl() { command curl -sS -f "$@"; }\n'


def _lines(server: JetgateServer, typed: str) -> set[str]:
    host, port = server.http
    script = FIRST + typed.replace("localhost:8080", f"{host}:{port}")
    done = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (typed, done.stdout, done.stderr)
    return {CHANGING.sub("*", line).strip() for line in done.stdout.splitlines()}


def test_every_line_answers_what_is_shown(jetgate_server: JetgateServer) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not there: the lines cannot be pasted")
    blocks = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in BLOCK.findall(TEXT)]
    steps = [step for block in blocks for step in STEP.findall(block)]
    assert len(steps) == 6
    try:
        for typed, shown in steps:
            wanted = {CHANGING.sub("*", line).strip() for line in shown.splitlines()} - {"", "..."}
            if "last_by=" in typed:  # what was asked for before may take its time

                def is_shown(typed: str = typed, wanted: set[str] = wanted) -> bool:
                    return wanted <= _lines(jetgate_server, typed)

                eventually(is_shown)
            else:
                assert wanted <= _lines(jetgate_server, typed), typed
    finally:
        _lines(jetgate_server, "curl -X DELETE localhost:8080/v1/streams/JOBS\n")
