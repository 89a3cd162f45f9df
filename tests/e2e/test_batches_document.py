"""The lines of docs/batches.md, run one after the other, answer what the document shows."""

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from typing import Any

import asyncpg

from tests.support.jetgate import ROOT, JetgateServer

TEXT = (ROOT / "docs" / "batches.md").read_text()
PYTHON = re.compile(r"^```python\n([\s\S]*?)^```\n\n((?:    .*\n)+)", re.MULTILINE)
CONFIG = re.compile(r"-X PUT localhost:8080(\S+) .*\n +-d '(.*)'")
QUERY = re.compile(r"^    => (.*);\n((?:    .*\n)+)", re.MULTILINE)


def created(server: JetgateServer) -> Any:
    found = CONFIG.search(TEXT)
    assert found is not None, "the document makes a stream"
    request = urllib.request.Request(
        f"http://{server.http[0]}:{server.http[1]}{found[1]}",
        found[2].encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


async def rows(server: JetgateServer, query: str) -> list[list[str]]:
    connection = await asyncpg.connect(re.findall(r"psql '([^']+)'", server.log(1 << 20))[-1])
    try:
        return [[str(value) for value in row] for row in await connection.fetch(query)]
    finally:
        await connection.close()


def test_every_line_answers_what_is_shown(jetgate_server: JetgateServer) -> None:
    program, query = PYTHON.search(TEXT), QUERY.search(TEXT)
    assert program is not None
    assert query is not None
    config = created(jetgate_server)["config"]
    try:
        script = program[1].replace(":4222", f":{jetgate_server.address[1]}")
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        stored = asyncio.run(rows(jetgate_server, query[1]))
    finally:
        url = f"http://{jetgate_server.http[0]}:{jetgate_server.http[1]}"
        gone = urllib.request.Request(f"{url}/v1/streams/{config['name']}", method="DELETE")
        urllib.request.urlopen(gone, timeout=30).close()

    assert done.stdout.splitlines() == [line[4:] for line in program[2].splitlines()], done.stderr
    shown = [[cell.strip() for cell in line.split("|")] for line in query[2].splitlines()[2:]]
    assert stored == shown
