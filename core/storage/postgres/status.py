"""Reads the status of a database for display: its nodes, its streams and their consumers."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.storage.leases import ForeignLocks
from core.storage.postgres.foreign_locks import foreign_locks
from core.storage.postgres.locks import IS_HELD

# A node leads a group while the row of the group names it and its session holds the lock. The rows
# alone stay when a node is killed.
_NODES = f"""
    with led as (
      select e.node, e.lease_group,
             (select count(*) from jetgate_store.stream s
               where s.lease_group = e.lease_group and not s.dropped) as streams
        from jetgate_store.lease e
        join jetgate_store.lease_holder h on h.lease_group = e.lease_group
        join jetgate_store.node o on o.node = e.node and o.session_pid = h.session_pid
       where exists (select from pg_locks k, pg_stat_activity a where {IS_HELD})
    )
    select n.node, n.nats, n.http, n.outages, n.clock_ahead, n.version, n.tags,
           n.route_host, n.route_port, n.links,
           extract(epoch from n.started)::float8 as started,
           extract(epoch from clock_timestamp())::float8 as now,
           extract(epoch from clock_timestamp() - n.seen)::float8 as silent_seconds,
           count(l.lease_group) as groups, coalesce(sum(l.streams), 0)::bigint as streams,
           coalesce(bool_or(l.lease_group = 0), false) as is_leader
      from jetgate_store.node n left join led l on l.node = n.node
     group by n.node
     order by is_leader desc, n.started
"""
_STREAMS = """
    select s.account, s.name as stream, h.msgs as messages, h.bytes, h.last_seq,
           (select count(*) from jetgate_store.consumer c where c.stream = s.stream) as consumers,
           coalesce((select max(greatest(h.last_seq - c.delivered_stream_seq, 0))
                       from jetgate_store.consumer c where c.stream = s.stream), 0) as lag,
           coalesce((select sum(c.ack_pending)
                       from jetgate_store.consumer c where c.stream = s.stream), 0)::bigint
             as ack_pending
      from jetgate_store.stream s join jetgate_store.head h on h.stream = s.stream
     where not s.dropped
     order by s.account, s.name
"""
_DAY_S = 86400.0
_PRESENT_S = 10.0
"""A node without a heartbeat for this many seconds counts as ended; a running one writes each
second.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that has run within the last day.

    Attributes:
        node: Its name.
        state: `leads` (owns a lease group), `follows`, or `gone`.
        is_leader: True if it leads the stream directory.
        groups: Number of lease groups it owns.
        streams: Number of streams in these groups.
        since: Start time, in UTC.
        silent_seconds: Seconds since its last heartbeat.
        clock_ahead: Offset of its wall clock from the database's, in seconds (positive: ahead);
            None if not measured.
        nats: Its address for clients.
        http: Its address for HTTP.
        route: Address at which other nodes connect to it; empty if they do not.
        version: Version of its release.
        tags: The placement tags that its operator has configured.
        links: Names of the nodes it has route connections with, by its last heartbeat.
    """

    node: str
    state: str
    is_leader: bool
    groups: int
    streams: int
    since: str
    silent_seconds: float
    clock_ahead: float | None
    nats: str
    http: str
    route: str
    version: str
    tags: list[str]
    links: list[str]

    @property
    def is_there(self) -> bool:
        """True if the node runs: its state is not `gone`."""
        return self.state != "gone"


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """A storage outage of the last day, as recorded by a node that is still listed.

    Attributes:
        node: Name of the node.
        began: Start, in UTC.
        seconds: Length in seconds; None: it lasts, or the node ended during it.
        cause: Text of the first failure.
    """

    node: str
    began: str
    seconds: float | None
    cause: str


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The status of a stream.

    Attributes:
        account: Its account.
        stream: Its name.
        messages: Number of messages.
        bytes: Total size of the messages, in bytes.
        last_seq: Last sequence.
        consumers: Number of consumers.
        lag: Number of sequences that the slowest consumer has not been sent yet, regardless of its
            filter; 0 without consumers.
        ack_pending: Number of delivered but unacknowledged messages of all consumers.
    """

    account: str
    stream: str
    messages: int
    bytes: int
    last_seq: int
    consumers: int
    lag: int
    ack_pending: int


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a database at one moment.

    Attributes:
        at: Local monotonic time, in seconds.
        latency_ms: Time of the query of the nodes, in milliseconds.
        nodes: The nodes; the leader of the stream directory is first.
        streams: The streams, by account and name.
        outages: Storage outages, oldest first.
        foreign_locks: Advisory locks with jetgate's keys of sessions that belong to no node.
    """

    at: float
    latency_ms: float
    nodes: list[Node]
    streams: list[StreamStatus]
    outages: list[NodeOutage]
    foreign_locks: list[ForeignLocks]


async def nodes(session: Any) -> list[Node]:
    """Return the nodes of a database, the leader of the stream directory first.

    Exceptions of asyncpg are passed on.
    """
    return [_node(row) for row in await session.fetch(_NODES)]


async def read_status(session: Any) -> Status:
    """Return the status of a database that has jetgate's schema.

    Exceptions of asyncpg are passed on.
    """
    began = time.perf_counter()
    rows = await session.fetch(_NODES)
    taken = time.perf_counter() - began
    streams = await session.fetch(_STREAMS)
    return Status(
        time.perf_counter(),
        round(taken * 1000, 3),
        [_node(row) for row in rows],
        [StreamStatus(**row) for row in streams],
        sorted((each for row in rows for each in _outages(row)), key=lambda each: each.began),
        await foreign_locks(session),
    )


def _outages(row: Mapping[str, Any]) -> Iterator[NodeOutage]:
    for each in json.loads(row["outages"]):
        if each["began"] > row["now"] - _DAY_S:
            yield NodeOutage(row["node"], _utc(each["began"]), each["seconds"], each["cause"])


def _node(row: Mapping[str, Any]) -> Node:
    silent, ahead = row["silent_seconds"], row["clock_ahead"]
    host, port = row["route_host"], row["route_port"]
    return Node(
        node=row["node"],
        state="leads" if row["groups"] else "follows" if silent < _PRESENT_S else "gone",
        is_leader=row["is_leader"],
        groups=row["groups"],
        streams=row["streams"],
        since=_utc(row["started"]),
        silent_seconds=round(silent, 1),
        clock_ahead=None if ahead is None else round(ahead, 3),
        nats=row["nats"],
        http=row["http"],
        route=f"{f'[{host}]' if ':' in host else host}:{port}" if port else "",
        version=row["version"],
        tags=row["tags"],
        links=row["links"],
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
