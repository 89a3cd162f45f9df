"""The lines of docs/features/transactions.md answer, in order, what it shows."""

# Subject: transactions

import asyncio
import re
import subprocess
import sys

import asyncpg

from core.model.transaction_errors import transaction_error
from tests.support.jetgate import ROOT, JetgateServer
from tests.support.wire import Wire

TEXT = (ROOT / "docs" / "features" / "transactions.md").read_text()
PYTHON = re.compile(r"^```python\n([\s\S]*?)^```\n\n((?:    .*\n)+)", re.MULTILINE)
QUERY = re.compile(r"^    => (.*);\n((?:    .*\n)+)", re.MULTILINE)


async def rows(server: JetgateServer, query: str) -> list[list[str]]:
    connection = await asyncpg.connect(re.findall(r"psql '([^']+)'", server.log(1 << 20))[-1])
    try:
        found = await connection.fetch(query)
        return [
            ["" if v is None else str(v).replace("\r\n", r"\r\n") for v in row] for row in found
        ]
    finally:
        await connection.close()


def test_every_line_answers_what_is_shown(jetgate_server: JetgateServer) -> None:
    program, query = PYTHON.search(TEXT), QUERY.search(TEXT)
    assert program is not None
    assert query is not None
    try:
        done = subprocess.run(
            [sys.executable, "-c", program[1].replace(":4222", f":{jetgate_server.address[1]}")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = [line[4:] for line in program[2].splitlines()]
        assert done.stdout.splitlines() == said, done.stderr
        stored = asyncio.run(rows(jetgate_server, query[1]))
    finally:
        with Wire(jetgate_server.address) as wire:
            wire.hello()
            for name in ("ORDERS", "JG_STAGE_ORDERS"):
                wire.api(f"STREAM.DELETE.{name}")

    table = [[cell.strip() for cell in line.split("|")] for line in query[2].splitlines()[2:]]
    assert stored == table


def test_the_numbers_of_errors_are_those_of_the_document() -> None:
    error = transaction_error("TokenSuperseded", token=1, app="load", newest=2)

    assert f"'err_code': {error.err_code}, 'description': '{error.description}'" in TEXT
