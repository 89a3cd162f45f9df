"""`jetgate status`: shows the nodes of a database, streams with rates, and outages."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from core.errors import ConfigError, OperatorError
from core.node.database import Database
from core.storage.postgres.status import Node, Status, StreamStatus, read_status
from jetgate.config import DATA_DIRECTORY
from jetgate.database import (
    Data,
    Dsn,
    DsnFile,
    DsnPasswordFile,
    finite,
    given,
    looking,
)
from jetgate.nodes import leader_of, node_table
from jetgate.run import fail
from jetgate.tables import table

_OUTAGES = ("OUTAGE BEGAN", "SECONDS", "NODE", "CAUSE")
_FOREIGN = ("ROLE", "PID", "LOCKS", "WAITS FOR", "LEASE GROUPS")
_STREAMS = ("STREAM", "MESSAGES", "BYTES", "STORED/S", "CONSUMERS", "LAG", "ACK PENDING")


def status_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seconds: Annotated[
        float,
        typer.Option(
            help="Seconds of counting for the rates; 0: no rates.", min=0, callback=finite
        ),
    ] = 1.0,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Show nodes, their lease groups, latency, streams, and recent outages.

    The command reads the database, so it works without a node as well. It also
    shows roles that hold advisory locks of jetgate and are no nodes. The exit
    code is 1 if no node leads the stream directory. Streams have rates and lag;
    outages are those of the last day.

    [bold]Examples[/bold]

      jetgate status

      jetgate status --json --dsn postgresql://jetgate@db.example/jetgate
    """
    try:
        database = given(dsn, dsn_file, dsn_password_file)
        before, now = asyncio.run(_looks(database, data, seconds))
    except (ConfigError, OperatorError) as error:
        fail(error)
    members = _members(before, now)
    print(json.dumps(members, indent=2) if as_json else _text(members, now.nodes))
    if members["leader"] is None:
        raise typer.Exit(1)


async def _looks(database: Database | None, data: Any, seconds: float) -> tuple[Status, Status]:
    """Read the status twice, `seconds` apart. Raises OperatorError if the database is unusable."""
    async with looking(database, data) as session:
        before = await read_status(session)
        if not seconds:
            return before, before
        await asyncio.sleep(seconds)
        return before, await read_status(session)


def _members(before: Status, now: Status) -> dict[str, Any]:
    earlier = {(each.account, each.stream): each.last_seq for each in before.streams}
    elapsed = now.at - before.at

    def stored_per_second(stream: StreamStatus) -> float | None:
        last = earlier.get((stream.account, stream.stream))
        if last is None or not elapsed:
            return None
        return round(max(stream.last_seq - last, 0) / elapsed, 1)

    return {
        "leader": leader_of(now.nodes),
        "latency_ms": now.latency_ms,
        "nodes": [asdict(each) for each in now.nodes],
        "streams": [
            {**asdict(each), "stored_per_second": stored_per_second(each)} for each in now.streams
        ],
        "outages": [asdict(each) for each in now.outages],
        "foreign_locks": [asdict(each) for each in now.foreign_locks],
    }


def _text(members: dict[str, Any], nodes: list[Node]) -> str:
    leader = members["leader"] or "nobody"
    parts = [
        f"{leader} leads the stream directory; PostgreSQL answers in {members['latency_ms']:.1f} ms"
    ]
    if nodes:
        parts.append(node_table(nodes))
    if members["streams"]:
        parts.append(table(_STREAMS, [_row(each) for each in members["streams"]]))
    outages = [_outage_row(each) for each in members["outages"]]
    if outages:
        parts.append(table(_OUTAGES, outages))
    if foreign := [_foreign_row(each) for each in members["foreign_locks"]]:
        told = "Sessions with advisory locks of jetgate that are not nodes; they block nothing:"
        parts.append(f"{told}\n{table(_FOREIGN, foreign)}")
    return "\n\n".join(parts)


def _row(stream: dict[str, Any]) -> tuple[str, ...]:
    rate = stream["stored_per_second"]
    numbers = [stream[name] for name in ("consumers", "lag", "ack_pending")]
    return (
        stream["stream"]
        if stream["account"] == "$G"
        else f"{stream['account']}/{stream['stream']}",
        str(stream["messages"]),
        str(stream["bytes"]),
        "" if rate is None else f"{rate:.1f}",
        *map(str, numbers),
    )


def _outage_row(outage: dict[str, Any]) -> tuple[str, ...]:
    seconds = outage["seconds"]
    length = "lasts" if seconds is None else f"{seconds:.1f}"
    return outage["began"], length, outage["node"], outage["cause"]


def _foreign_row(locks: dict[str, Any]) -> tuple[str, ...]:
    numbers = locks["held"], locks["awaited"], len(locks["groups"])
    return locks["role"], locks["prepared"] or str(locks["pid"]), *map(str, numbers)
