"""Gives restored streams new times of creation, so that clients do not continue at old positions.

A client's position is (incarnation of the stream, sequence); the incarnation is the stream's time
of creation. After an older state was restored, a sequence may belong to another message than
before. WebSocket and SSE clients, Spark checkpoints and SQL readers detect the new incarnation and
start again. Acknowledgement tokens of the gateway are signed with a key, which is replaced too.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from core.model.names import short_hash
from core.runtime.clock import Clock
from core.storage.postgres.locks import SERIALIZE_BUMPS
from core.units import Epoch

Name = tuple[str, str]
"""Account and name of a stream."""

# In the lock order of leaders and writers. These locks end the leadership of every running node.
_LOCK = (
    SERIALIZE_BUMPS,
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
# A former leader of this database must not take the restored state for its own.
_NOBODY_LEADS = "update jetgate_store.lease set token = 0, node = '', since = null"
# Versions continue from that of this database; nodes that follow the directory reload everything.
_UNFOLLOWED = (
    "update jetgate_store.stream set version = 0",
    "delete from jetgate_store.deletion",
)
_KEY = "uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())"


async def lock_heads(session: Any) -> None:
    """Lock leases and head rows: writers and new leaders wait for this transaction."""
    for statement in _LOCK:
        await session.execute(statement)


async def renew(
    session: Any, clock: Clock, *, epoch: Epoch = Epoch(0), names: Mapping[Name, str] | None = None
) -> int:
    """Set a new time of creation, new epochs and optionally new names for all streams.

    Exceptions of asyncpg are passed on.

    Args:
        session: A session in a transaction that has called `lock_heads`.
        clock: The clock of this machine.
        epoch: The new epochs are above this one and above those in the database.
        names: New names of streams, by (account, name); the subjects of a stream do not change.

    Returns:
        The number of streams.
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
        # Rows of sources name the incarnation of their origin, which was restored with them.
        await session.execute(
            "update jetgate_store.source set identity = $2 where identity = $1",
            _identity(row["account"], row["name"], row["created"]),
            _identity(row["account"], name, created),
        )
    await session.execute("delete from jetgate_store.secret where name = 'ack-tokens'")
    await session.execute(f"insert into jetgate_store.secret values ('ack-tokens', {_KEY})")
    # The key by which nodes authenticate routes stays if there is one: nodes may be running.
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
