"""`jetgate cluster`: shows the nodes of a database, their lease groups, and their links."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from core.errors import ConfigError, OperatorError
from core.node.database import Database
from core.storage.postgres.locks import LEASE_GROUPS
from core.storage.postgres.status import Node, nodes
from jetgate.config import DATA_DIRECTORY
from jetgate.database import Data, Dsn, DsnFile, DsnPasswordFile, given, looking
from jetgate.nodes import groups_led, leader_of, missing_links, node_table
from jetgate.run import fail


def cluster_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Show the nodes of a database, their lease groups and their links.

    The command reads the database, where each node records its state and its
    links once a second. Streams are led in 256 lease groups; the first group is
    that of the stream directory. The exit code is 0 if all groups are led and
    all live nodes are linked to one another, else 1.

    [bold]Examples[/bold]

      jetgate cluster --dsn postgresql://jetgate@db.example/jetgate

      jetgate cluster --json --dsn-file /run/secrets/dsn
    """
    try:
        database = given(dsn, dsn_file, dsn_password_file)
        found = asyncio.run(_read_nodes(database, data))
    except (ConfigError, OperatorError) as error:
        fail(error)
    leader, led, missing = leader_of(found), groups_led(found), missing_links(found)
    if as_json:
        links = [{"node": node, "to": to} for node, to in missing]
        told = {
            "leader": leader,
            "groups": led,
            "nodes": [asdict(each) for each in found],
            "missing_links": links,
        }
        print(json.dumps(told, indent=2))
    else:
        print(_text(found, leader, missing))
    if led < LEASE_GROUPS or missing:
        raise typer.Exit(1)


async def _read_nodes(database: Database | None, data: Path) -> list[Node]:
    async with looking(database, data) as session:
        return await nodes(session)


def _text(found: Sequence[Node], leader: str | None, missing: Sequence[tuple[str, str]]) -> str:
    there = sum(each.is_there for each in found)
    many = {0: "no node is", 1: "1 node is"}.get(there, f"{there} nodes are")
    led = f"{groups_led(found)} of {LEASE_GROUPS} lease groups are led"
    parts = [f"{leader or 'nobody'} leads the stream directory; {many} there; {led}"]
    if found:
        parts.append(node_table(found))
    if missing:
        parts.append("\n".join(f"{node} does not reach {to}" for node, to in missing))
    return "\n\n".join(parts)
