"""`jetgate doctor`: checks whether jetgate can serve from a database."""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from core.errors import ConfigError
from core.node.database import Database
from core.storage.postgres.doctor import Finding, examine
from jetgate.database import Dsn, DsnFile, DsnPasswordFile, required
from jetgate.run import fail


def doctor_command(
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a database before serving from it, without changing it.

    Each line is ok, warn (a disadvantage) or fail (jetgate will not serve).
    The exit code is 1 if anything fails.

    [bold]Examples[/bold]

      jetgate doctor --dsn postgresql://jetgate@db.example/jetgate

      jetgate doctor --dsn-file /etc/jetgate/dsn --json
    """
    try:
        database = required(dsn, dsn_file, dsn_password_file)
        findings = asyncio.run(_examine(database, as_json))
    except ConfigError as error:
        fail(error)
    if as_json:
        print(json.dumps([asdict(each) for each in findings], indent=2))
    if any(each.state == "fail" for each in findings):
        sys.exit(1)


async def _examine(database: Database, quiet: bool) -> list[Finding]:
    findings = []
    async for each in examine(database.connector()):
        findings.append(each)
        if not quiet:
            print(_text(each), flush=True)
    return findings


def _text(finding: Finding) -> str:
    line = f"{finding.state:<4}  {finding.what}: {finding.found}"
    return line + (f"\n      -> {finding.todo}" if finding.todo else "")
