"""The lines of docs/features/batches.md answer, in order, what it shows."""

# Subject: batches

import asyncio
import json
import re
import subprocess
import sys
import urllib.request

import asyncpg

from tests.support.jetgate import ROOT, JetgateServer

TEXT = (ROOT / "docs" / "features" / "batches.md").read_text()
PYTHON = re.compile(r"^```python\n([\s\S]*?)^```\n\n((?:    .*\n)+)", re.MULTILINE)
CONFIG = re.compile(r"-X PUT localhost:8080(\S+) .*\n +-d '(.*)'")
QUERY = re.compile(r"^    => (.*);\n((?:    .*\n)+)", re.MULTILINE)


def created(server: JetgateServer) -> list[str]:
    """Make the streams of the document; their names."""
    names = []
    for path, body in CONFIG.findall(TEXT):
        request = urllib.request.Request(
            f"http://{server.http[0]}:{server.http[1]}{path}",
            body.encode(),
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            names.append(json.load(answer)["config"]["name"])
    return names


async def rows(server: JetgateServer, query: str) -> list[list[str]]:
    connection = await asyncpg.connect(re.findall(r"psql '([^']+)'", server.log(1 << 20))[-1])
    try:
        return [[str(value) for value in row] for row in await connection.fetch(query)]
    finally:
        await connection.close()


def test_every_line_answers_what_is_shown(jetgate_server: JetgateServer) -> None:
    programs, query = PYTHON.findall(TEXT), QUERY.search(TEXT)
    assert query is not None
    names = created(jetgate_server)
    assert len(programs) == len(names) == 2
    try:
        for program, shown in programs:
            script = program.replace(":4222", f":{jetgate_server.address[1]}")
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            said = [line[4:] for line in shown.splitlines()]
            assert done.stdout.splitlines() == said, done.stderr
        stored = asyncio.run(rows(jetgate_server, query[1]))
    finally:
        for name in names:
            url = f"http://{jetgate_server.http[0]}:{jetgate_server.http[1]}/v1/streams/{name}"
            gone = urllib.request.Request(url, method="DELETE")
            urllib.request.urlopen(gone, timeout=30).close()

    table = [[cell.strip() for cell in line.split("|")] for line in query[2].splitlines()[2:]]
    assert stored == table
