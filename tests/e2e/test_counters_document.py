"""The lines of docs/features/counters.md answer, in order, what it shows."""

# Subject: counters

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import asyncpg
import pytest

from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer

TEXT = (ROOT / "docs" / "features" / "counters.md").read_text()
BLOCK = re.compile(r"^```python\n((?:.*\n)*?)```\n|^((?:    .*\n|\n(?=    ))+)", re.MULTILINE)
# A prompt, what is typed behind it and in deeper lines, and what is shown below.
STEP = re.compile(r"^(\$|=>) (.*\n(?:   +.*\n)*)((?:(?!\$ |=> ).*\n)*)", re.MULTILINE)
# The origin's, another one each time.
IDENTITY = re.compile(r"(?<= hits.home )\w{8}\b")
CURL = 'set -e -o pipefail\ncurl() { command curl -sS -f "$@"; }\n'


def _steps() -> Iterator[tuple[str, str, list[str]]]:
    program = ""
    for python, indented in BLOCK.findall(TEXT):
        shown = re.sub(r"^    ", "", indented, flags=re.MULTILINE)
        if program:
            yield "python", program, shown.splitlines()
        for prompt, typed, answer in STEP.findall(shown):
            yield prompt, typed, answer.splitlines()
        program = python


def _run(server: JetgateServer, prompt: str, typed: str) -> list[str]:
    """What is answered, line by line."""
    if prompt == "=>":
        return asyncio.run(_rows(server, typed))
    command = [sys.executable, "-"] if prompt == "python" else ["bash"]
    (host, port), (_, http) = server.address, server.http
    script = typed.replace("localhost:8080", f"{host}:{http}").replace(":4222", f":{port}")
    done = subprocess.run(
        command,
        input=CURL + script if prompt == "$" else script,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (typed, done.stdout, done.stderr)
    return IDENTITY.sub("*", done.stdout).splitlines()


def _shows(server: JetgateServer, typed: str, wanted: set[str]) -> bool:
    return wanted <= set(_run(server, "$", typed))


async def _rows(server: JetgateServer, statement: str) -> list[str]:
    """The rows as psql shows them, blanks apart."""
    connection = await asyncpg.connect(re.findall(r"psql '([^']+)'", server.log(1 << 20))[-1])
    try:
        rows = await connection.fetch(statement)
    finally:
        await connection.close()
    return [" | ".join(row.keys()) for row in rows[:1]] + [" | ".join(row) for row in rows]


def test_every_line_answers_what_is_shown(jetgate_server: JetgateServer) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not there: the lines cannot be pasted")
    steps = list(_steps())
    assert [prompt for prompt, _, _ in steps] == ["$"] * 5 + ["python", "=>"] + ["$"] * 2
    try:
        for prompt, typed, shown in steps:
            wanted = {IDENTITY.sub("*", " ".join(line.split())) for line in shown} - {""}
            wanted = {line for line in wanted if not line.startswith("---")}
            asks = prompt == "$" and "curl -X" not in typed and "curl -T" not in typed
            if asks:  # What was asked for before may take its time.
                eventually(partial(_shows, jetgate_server, typed, wanted))
            else:
                assert wanted <= set(_run(jetgate_server, prompt, typed)), typed
    finally:
        for name in ("ALL", "HITS"):
            _run(jetgate_server, "$", f"curl -X DELETE localhost:8080/v1/streams/{name}\n")
