"""The command `jetgate remote`: manages the other NATS systems that the nodes connect to.

The list is in the database; each node reads changes of the list within seconds.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from core.client.client import Client
from core.client.errors import ClientError, NoResponders, RequestTimeout
from core.errors import ConfigError, OperatorError, Unavailable
from core.node.database import Database
from core.remote.leaf import Leaf
from core.remote.remotes import open_line, server_of
from core.remote.settings import Remote
from core.storage.postgres.remotes import PostgresRemotes, StoredRemote
from core.storage.remotes import RemoteRow
from jetgate.config import DATA_DIRECTORY
from jetgate.database import (
    Data,
    Dsn,
    DsnFile,
    DsnPasswordFile,
    connector_of,
    given,
    open_database,
)
from jetgate.run import fail
from jetgate.tables import table

_STALE_S = 60
_HEADINGS = ("NAME", "URL", "STATE", "SERVER", "RTT", "DELIVERIES")
_WAIT_S = 5.0

remotes = typer.Typer(
    no_args_is_help=True,
    help="""Other NATS systems whose streams are read here, or that read streams from here.

    [bold]nats://...[/bold]: an ordinary client connection of each node.
    While it stands, the JetStream of the other system is [bold]$JS.NAME.API[/bold]
    here: mirrors and sources name that as external API, clients give NAME as
    domain.

    [bold]nats-leaf://...[/bold]: a leaf node connection. While it stands, our
    JetStream is [bold]$JS.NAME.API[/bold] there, for reading: streams there can
    mirror and source ours.

    [bold]Examples[/bold]

      jetgate remote add hub nats://hub.example:4222 --creds /etc/hub.creds

      jetgate remote add gate nats-leaf://hub.example:7422

      jetgate remote list

    A mirror:

      {"name": "COPY",
       "mirror": {"name": "ORDERS", "external": {"api": "$JS.hub.API"}}}""",
)

Name = Annotated[str, typer.Argument(help="One token: letters, digits, - and _.")]
Url = Annotated[
    str,
    typer.Argument(help=r"nats:// or nats-leaf://\[user:password@ or token@]host\[:port]."),
]
Creds = Annotated[
    str,
    typer.Option(
        help="Credentials file (JWT and nkey seed). Only the path is stored: every"
        " node that may lead needs the file."
    ),
]


@remotes.command("add")
def add_command(
    name: Name,
    url: Url,
    creds: Creds = "",
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Add a remote, or change the one of this name.

    The command connects to the remote once. The remote is kept even if that
    fails, because a node retries without limit.

    [bold]Examples[/bold]

      jetgate remote add hub nats://hub.example:4222 --creds /etc/hub.creds

      jetgate remote add lab nats://reader:secret@10.0.0.7 --dsn postgresql://...
    """
    path = str(Path(creds).expanduser().resolve()) if creds else ""

    async def work() -> None:
        remote = Remote(name, url, path)
        store = await _open(given(dsn, dsn_file, dsn_password_file), data)
        is_new = await store.add(RemoteRow(remote.name, remote.url, remote.creds))
        what = "is offered to" if remote.is_offer else "is"
        done = "added" if is_new else "changed"
        print(f"remote {name} {done}: $JS.{name}.API {what} {remote.shown}")
        try:
            print(await _probe(remote))
        except OperatorError as error:
            print(f"it cannot be used yet: {error}", file=sys.stderr)

    _run(work)


@remotes.command("list")
def list_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Show all remotes, with the state of their connections.

    [bold]Example[/bold]

      jetgate remote list --json
    """

    async def work() -> None:
        told = await (await _open(given(dsn, dsn_file, dsn_password_file), data)).states()
        if as_json:
            print(json.dumps([_members(each) for each in told], indent=2))
        elif told:
            print(table(_HEADINGS, [_columns(each) for each in told]))
        else:
            print("no remotes yet: jetgate remote add NAME URL")

    _run(work)


@remotes.command("remove")
def remove_command(
    name: Name,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Remove a remote; its mirrors and sources wait for a new one of this name.

    [bold]Example[/bold]

      jetgate remote remove hub
    """

    async def work() -> None:
        if not await (await _open(given(dsn, dsn_file, dsn_password_file), data)).remove(name):
            raise OperatorError(f"there is no remote {name}; jetgate remote list shows them")
        print(f"remote {name} removed")

    _run(work)


@remotes.command("check")
def check_command(
    name: Name,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Connect to a remote from this machine, and describe its JetStream.

    The exit code is 1 if that fails.

    [bold]Example[/bold]

      jetgate remote check hub
    """

    async def work() -> None:
        rows = {
            row.name: row
            for row in await (await _open(given(dsn, dsn_file, dsn_password_file), data)).load()
        }
        if name not in rows:
            raise OperatorError(f"there is no remote {name}; jetgate remote list shows them")
        print(await _probe(Remote(name, rows[name].url, rows[name].creds)))

    _run(work)


# -- the database


async def _open(database: Database | None, data: Path) -> PostgresRemotes:
    """Return the store of remotes in the database.

    Raises OperatorError if the database is unreachable or lacks this release's schema.
    """
    return PostgresRemotes(await open_database(await connector_of(database, data)))


# -- the other system


async def _probe(remote: Remote) -> str:
    """Connect to a remote and describe its JetStream in one line. Raises OperatorError if it
    fails.
    """
    line = open_line(remote)
    try:
        await line.open()
        return await _describe(line, remote.name)
    except (OSError, ClientError) as error:
        raise OperatorError(f"{remote.shown}: {_why(error)}") from error
    finally:
        await line.close()


async def _describe(line: Client | Leaf, name: str) -> str:
    begin = f"connected to {server_of(line)}"
    if isinstance(line, Leaf):
        return f"{begin} as a leaf node: its clients reach our JetStream as $JS.{name}.API"
    answer = await line.request(b"$JS.API.INFO", within=_WAIT_S)
    account = msgspec.json.decode(answer.payload)
    if "error" in account:
        return f"{begin}, but its JetStream answers: {account['error'].get('description')}"
    streams, consumers = account.get("streams"), account.get("consumers")
    return f"{begin}: JetStream with {streams} streams and {consumers} consumers"


def _why(error: Exception) -> str:
    if isinstance(error, NoResponders):
        return "it has no JetStream, or this user may not use it"
    if isinstance(error, RequestTimeout):
        return "no answer from its JetStream: this user may lack the permission for $JS.API.INFO"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


# -- showing


def _members(told: StoredRemote) -> dict[str, Any]:
    state = told.state
    return {
        "name": told.row.name,
        "url": Remote(told.row.name, told.row.url).shown,
        "creds": told.row.creds,
        "api": f"$JS.{told.row.name}.API",
        "state": _state(told),
        "connected": state.connected and not _is_stale(told),
        "server": state.server,
        "rtt_ms": round(state.rtt_ns / 1e6, 3),
        "deliveries": state.relays,
        "error": state.error,
        "told": told.at.isoformat() if told.at else None,
    }


def _columns(told: StoredRemote) -> tuple[str, ...]:
    members = _members(told)
    rtt = f"{members['rtt_ms']:.1f} ms" if members["connected"] else ""
    deliveries = str(members["deliveries"]) if members["connected"] else ""
    return (
        members["name"],
        members["url"],
        members["state"],
        members["server"],
        rtt,
        deliveries,
    )


def _state(told: StoredRemote) -> str:
    if told.at is None:
        return "no node has checked yet"
    if _is_stale(told):
        return "unknown: no node is running"
    if told.state.connected:
        return f"connected, {told.state.error}" if told.state.error else "connected"
    return f"not connected: {told.state.error}" if told.state.error else "not connected"


def _is_stale(told: StoredRemote) -> bool:
    return told.age_s is not None and told.age_s > _STALE_S


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.run(work())
    except (OperatorError, ConfigError, Unavailable) as error:
        fail(error)
