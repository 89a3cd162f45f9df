"""Gives streams that were put back a new incarnation, so that nobody goes on in the old ones.

Positions are (incarnation of the stream, sequence), and the incarnation is the time of its
creation. After an older state was put back, a sequence may stand for another message than before:
WebSocket and SSE clients, checkpoints of Spark and readers of SQL have to notice. So do holders of
acknowledgement tokens, which are signed with a key that is replaced.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from core.model.names import short_hash
from core.runtime.clock import Clock
from core.storage.postgres.locks import BUMPS_IN_TURN

Name = tuple[str, str]
"""Account and name of a stream."""

# In the order in which leaders and writers lock them. All that a leader remembers is over then.
_LOCK = (
    BUMPS_IN_TURN,
    "select from jetgate_store.lease order by lease_group for update",
    "select from jetgate_store.head order by stream for update",
)
_STREAMS = """
    select stream, account, name, created, config from jetgate_store.stream
     where not dropped order by stream
"""
_EPOCHS = (
    "update jetgate_store.head set epoch = $1",
    "update jetgate_store.consumer set epoch = $1",
)
# A node that led what was there before must not take this for what it left.
_NOBODY_LEADS = "update jetgate_store.lease set token = 0, node = '', since = null"
# Versions count from that of this place; who follows reads everything anew.
_UNFOLLOWED = (
    "update jetgate_store.stream set version = 0",
    "delete from jetgate_store.deletion",
)
_KEY = "uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())"


async def lock_heads(session: Any) -> None:
    """Keep every writer and every coming leader waiting until the transaction ends."""
    for statement in _LOCK:
        await session.execute(statement)


async def renew(
    session: Any, clock: Clock, *, epoch: int = 0, names: Mapping[Name, str] | None = None
) -> int:
    """Renew the incarnations of all streams within the transaction of a session.

    Args:
        session: whose transaction holds the locks of `lock_heads`.
        clock: of this machine.
        epoch: every epoch will be above this one, and those in the database.
        names: new names of streams; their subjects stay.

    Returns how many streams there are. Raises what asyncpg raises.
    """
    highest = await session.fetchval("select coalesce(max(epoch), 0) from jetgate_store.head")
    for statement in _EPOCHS:
        await session.execute(statement, max(highest, epoch) + 1)
    for statement in (_NOBODY_LEADS, *_UNFOLLOWED):
        await session.execute(statement)
    streams = await session.fetch(_STREAMS)
    created = max([clock.now(), *(row["created"] + 1 for row in streams)])
    for row in streams:
        name = (names or {}).get((row["account"], row["name"]), row["name"])
        config = row["config"] if name == row["name"] else _renamed(row["config"], name)
        await session.execute(
            "update jetgate_store.stream set name = $2, created = $3, config = $4"
            " where stream = $1",
            row["stream"],
            name,
            created,
            config,
        )
        # Who copies a stream stands in its incarnation, which he was put back with.
        await session.execute(
            "update jetgate_store.source set identity = $2 where identity = $1",
            _identity(row["account"], row["name"], row["created"]),
            _identity(row["account"], name, created),
        )
    await session.execute("delete from jetgate_store.secret where name = 'ack-tokens'")
    await session.execute(f"insert into jetgate_store.secret values ('ack-tokens', {_KEY})")
    # What nodes prove to each other stays, where it is: some may run.
    await session.execute(
        f"insert into jetgate_store.secret values ('routes', {_KEY}) on conflict do nothing"
    )
    return len(streams)


def _identity(account: str, name: str, created: int) -> str:
    return short_hash(f"{account}.{name}.{created}").decode()


def _renamed(config: str, name: str) -> str:
    members = msgspec.json.decode(config, type=dict[str, msgspec.Raw])
    members["name"] = msgspec.Raw(msgspec.json.encode(name))
    return msgspec.json.encode(members).decode()
