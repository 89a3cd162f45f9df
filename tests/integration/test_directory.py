"""The directory of several nodes over a real PostgreSQL: who changes what, and who knows of it."""

# Subject: streams, several nodes

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, ServiceUnavailableError

from core.cluster.directory import StreamDirectory
from core.cluster.directory_follower import DirectoryFollower
from core.errors import ApiError, Fenced
from core.model.api_errors import api_error
from core.model.stream import StreamConfig
from core.node.peers import Peers
from core.node.publish_gate import PublishGate
from core.node.runtime import JetStreamRuntime, RuntimeOptions
from core.node.server import Server, ServerOptions
from core.route import versions
from core.route.settings import ClusterSettings
from core.runtime.clock import SystemClock
from core.runtime.nuid import random_id
from core.storage.interface import NewStream
from core.storage.leases import PeerRow
from core.storage.postgres import outcomes
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.directory_source import DELETIONS_MAX, PostgresDirectorySource
from core.storage.postgres.directory_store import PostgresDirectoryStore
from core.storage.postgres.locks import ALL_LEASE_GROUPS, LEASE_GROUPS
from core.storage.postgres.nodes import delete_node
from core.units import Epoch, LeaseGroup, Nanos
from tests.integration.test_directory_faults import lose_answers
from tests.support.eventually import observed
from tests.support.lease_groups import by_group
from tests.support.node import add_stream, lead, running_node
from tests.support.ownership import owners
from tests.support.scenario import run_within

SECRET = b"s" * 32
WAITING = "select count(*) from pg_locks where not granted"
C = ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT)


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[JetStreamContext]:
    nc = await nats.connect(server.nats_address)
    try:
        yield nc.jetstream(timeout=60)
    finally:
        await nc.close()


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


class Writer:
    """What changes the stream directory on a node, with what that node knows."""

    def __init__(self, pool: Any, leases: dict[LeaseGroup, int]) -> None:
        self.known = StreamDirectory()
        self.directory_store = PostgresDirectoryStore(
            pool, lambda _why: None, self.known, lambda: leases
        )

    async def add(self, name: str, subject: str = "") -> int:
        """Create a stream, unless there is one of that name."""
        config = f'{{"name":"{name}","subjects":["{subject or name}"]}}'

        def check() -> None:
            if self.known.find("$G", name) is not None:
                raise api_error("JSStreamNameExist")

        check()
        row = await self.directory_store.add_stream(
            NewStream("$G", name, 0, 0, random_id(), config, 1), check
        )
        return row.stream


@asynccontextmanager
async def writers(
    dsn: str, leases: dict[LeaseGroup, int] | None = None
) -> AsyncIterator[list[Writer]]:
    """Two nodes that lead all groups between two leaderships: nobody's token is 0."""
    pools = [await Connector(dsn).pool(Purpose.WRITE, 2) for _ in range(2)]
    all_groups = dict.fromkeys(ALL_LEASE_GROUPS, 0)
    try:
        yield [Writer(pool, all_groups if leases is None else leases) for pool in pools]
    finally:
        for pool in pools:
            pool.terminate()


# -- streams ------------------------------------------------------------------------------------


def test_of_two_nodes_that_create_the_same_one_does_and_the_other_knows(database: str) -> None:
    async def scenario() -> None:
        async with writers(database) as (one, other):

            async def create(writer: Writer, names: list[str]) -> list[str]:
                created = []
                for name in names:
                    with contextlib.suppress(ApiError):  # there is one, of the other
                        await writer.add(name)
                        created.append(name)
                return created

            names = [f"S{n}" for n in range(20)]
            made = await asyncio.gather(create(one, names), create(other, names[::-1]))
            assert sorted(made[0] + made[1]) == sorted(names)
            source = PostgresDirectorySource(Connector(database))
            for writer in (one, other):
                writer.known.apply(await source.news(writer.known.version))
                assert sorted(writer.known.of("$G")) == sorted(names)
                assert writer.known.version == len(names)
            await source.close()

    run_within(120, scenario)


@pytest.mark.parametrize("stored", [False, True], ids=["not-stored", "stored"])
def test_a_creation_that_is_tried_again_leaves_what_another_node_created_meanwhile(
    database: str, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setattr(outcomes, "OUTCOME_TIMEOUT_S", 60.0)

    async def scenario() -> None:
        async with writers(database) as (one, other):
            lose_answers(monkeypatch, 1, stored=stored)
            retry, theirs = one.directory_store._outcomes._retry, 0

            async def late(work: Any) -> Any:
                nonlocal theirs
                theirs = await other.add("T" if stored else "S", "theirs")
                return await retry(work)

            monkeypatch.setattr(one.directory_store._outcomes, "_retry", late)
            if stored:
                assert await one.add("S", "ours") != theirs
            else:
                with pytest.raises(ApiError, match="stream name already in use"):
                    await one.add("S", "ours")
            source = PostgresDirectorySource(Connector(database))
            found = await source.news(-1)
            await source.close()
            streams = {row.name: row.config for row in found.rows}
            assert "theirs" in streams["T" if stored else "S"]
            assert len(streams) == found.version == (2 if stored else 1)

    run_within(120, scenario)


def test_a_node_without_the_lease_creates_nothing(database: str) -> None:
    async def scenario() -> None:
        async with (
            writers(database, by_group({3: 41, 5: 42})) as (one, _),
            session(database) as admin,
        ):
            with pytest.raises(Fenced):
                await one.add("S")
            await admin.execute("update jetgate_store.lease set token = 41 where lease_group = 3")
            taking = admin.transaction()
            await taking.start()
            await admin.execute("update jetgate_store.lease set token = 43 where lease_group = 3")
            creation = asyncio.ensure_future(one.add("S"))
            async with session(database) as looker:
                await observed(lambda: looker.fetchval(WAITING))
            await taking.commit()
            with pytest.raises(Fenced):
                await creation
            assert await admin.fetchval("select count(*) from jetgate_store.stream") == 0
            assert await admin.fetchval("select count(*) from jetgate_store.head") == 1

    run_within(120, scenario)


def test_a_node_that_reads_late_learns_of_deleted_and_forgotten_streams(database: str) -> None:
    async def scenario() -> None:
        async with writers(database) as (one, other), session(database) as admin:
            source = PostgresDirectorySource(Connector(database))
            numbers = [await one.add(name) for name in ("A", "B")]
            other.known.apply(await source.news(other.known.version))
            await one.directory_store.drop_stream(numbers[0], lambda: Epoch(1))
            await one.directory_store.forget_stream(numbers[0])
            await one.add("A")
            found = await source.news(other.known.version)
            assert not found.is_whole
            assert len(found.rows) == 2
            other.known.apply(found)
            assert dict(other.known.of("$G")) == dict(one.known.of("$G"))
            # Who knows too little reads everything, as does who knows more than there is.
            await admin.execute("update jetgate_store.head set last_seq = $1", DELETIONS_MAX + 3)
            assert [(await source.news(n)).is_whole for n in (2, 3, DELETIONS_MAX + 4)] == [
                True,
                False,
                True,
            ]
            await source.close()

    run_within(120, scenario)


# -- consumers ----------------------------------------------------------------------------------


def test_a_consumer_is_created_while_the_group_committer_has_a_transaction_open(
    database: str,
) -> None:
    async def scenario() -> None:
        async with running_node(database) as node, session(database) as committer:
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            transaction = committer.transaction()
            await transaction.start()
            await committer.execute(
                "update jetgate_store.head set last_ts = last_ts where stream <> 0"
            )
            async with client(node.server) as js:
                await js.add_consumer("S", C)
                await js.delete_consumer("S", "C")
            await transaction.rollback()

    run_within(120, scenario)


def test_a_takeover_waits_for_a_consumer_that_is_being_created(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its row would have an epoch that is over, and no state of it could be written."""

    async def scenario() -> None:
        async with (
            running_node(database) as node,
            session(database) as looker,
            client(node.server) as js,
        ):
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            commit = asyncpg.transaction.Transaction.__aexit__
            inserted, may_commit = asyncio.Event(), asyncio.Event()

            async def late(self: Any, *arguments: Any) -> None:
                inserted.set()
                await may_commit.wait()
                await commit(self, *arguments)

            with monkeypatch.context() as patch:
                patch.setattr(asyncpg.transaction.Transaction, "__aexit__", late)
                creation = asyncio.ensure_future(js.add_consumer("S", C))
                await inserted.wait()
            takeover = asyncio.ensure_future(node.runtime.recover([]))
            await observed(lambda: looker.fetchval(WAITING))
            assert not takeover.done()
            may_commit.set()
            await asyncio.gather(creation, takeover)
            epochs = await looker.fetchrow(
                "select h.epoch, c.epoch from jetgate_store.head h"
                " join jetgate_store.consumer c using (stream)"
            )
            assert epochs[0] == epochs[1] == node.registry.streams["S"].epoch > 1

    run_within(120, scenario)


def test_a_term_ends_when_the_database_has_lost_changes_of_consumers(database: str) -> None:
    async def scenario() -> None:
        async with running_node(database) as node, session(database) as admin:
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            async with client(node.server) as js:
                await js.add_consumer("S", C)
            await node.runtime.recover([])
            await admin.execute("update jetgate_store.stream set consumer_changes = 0")
            with pytest.raises(Fenced, match="stream S has lost changes of its consumers"):
                await node.runtime.recover([])

    run_within(120, scenario)


# -- three nodes --------------------------------------------------------------------------------


@dataclass
class Member:
    """A node that serves clients, whoever leads."""

    server: Server
    peers: Peers
    known: DirectoryFollower

    def streams(self) -> dict[str, tuple[str, ...]]:
        """What it knows: the subjects of each stream."""
        found = self.known.directory.of("$G").items()
        return {name: tuple(stream.config.subjects) for name, stream in found}


@asynccontextmanager
async def member(dsn: str) -> AsyncIterator[Member]:
    settings = ClusterSettings(name="", host="127.0.0.1", port=0)
    server = Server(ServerOptions(port=0, links=settings), SystemClock())
    peers = Peers(server, partial(delete_node, Connector(dsn)))
    known = DirectoryFollower(PostgresDirectorySource(Connector(dsn)), peers)
    try:
        await server.listen()
        await server.join(SECRET)
        assert server.links is not None
        peers.follow(known)
        yield Member(server, peers, known)
    finally:
        await server.close()
        await known.close()


@asynccontextmanager
async def runtime_of(each: Member, dsn: str) -> AsyncIterator[JetStreamRuntime]:
    """A runtime of a node, which leads what is free when it begins."""
    options = RuntimeOptions(cluster=None, gate=PublishGate(each.server))
    name = each.server.hub.server_name
    runtime = await lead(each.server, Connector(dsn), options, name=name, known=each.known)
    try:
        yield runtime
    finally:
        await runtime.retire()
        await runtime.stop()


@asynccontextmanager
async def three(dsn: str) -> AsyncIterator[tuple[list[Member], JetStreamRuntime]]:
    """Three nodes, of which the first leads, each linked with each."""
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(member(dsn)) for _ in range(3)]
        runtimes = [await stack.enter_async_context(runtime_of(each, dsn)) for each in members]
        meshes = [each.server.links for each in members if each.server.links is not None]
        rows = [
            PeerRow(mesh.hub.server_name, mesh.hub.server_id, *mesh.address, Nanos(0), Nanos(-age))
            for age, mesh in enumerate(meshes)
        ]
        for each in members:
            each.peers.met(rows)
        await observed(lambda: all(len(mesh.peers) == 2 for mesh in meshes))
        await observed(lambda: all(len(owners(mesh)) == LEASE_GROUPS for mesh in meshes[1:]))
        yield members, runtimes[0]


def test_every_node_knows_what_one_has_changed_when_that_is_answered(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "WITHIN_S", 60.0)  # however slow the machine

    async def scenario() -> None:
        async with three(database) as (members, _), client(members[1].server) as js:

            def all_know() -> dict[str, tuple[str, ...]]:
                one, other, third = (each.streams() for each in members)
                assert one == other == third
                return one

            await js.add_stream(name="S", subjects=["s"])
            assert all_know() == {"S": ("s",)}
            await js.update_stream(name="S", subjects=["s", "t"])
            assert all_know() == {"S": ("s", "t")}
            many = (js.add_stream(name=f"M{n}", subjects=[f"m{n}"]) for n in range(30))
            await asyncio.gather(*many)
            assert len(all_know()) == 31
            await js.delete_stream("S")
            assert "S" not in all_know()
            await js.add_stream(name="U", subjects=["t"])
            assert all_know()["U"] == ("t",)

    run_within(120, scenario)


def test_an_unannounced_stream_is_read_before_it_counts_as_missing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "WITHIN_S", 60.0)

    async def scenario() -> None:
        async with (
            three(database) as (members, runtime),
            writers(database) as (other, _),
            client(members[2].server) as js,
        ):
            other.directory_store._leases = runtime._tokens
            await other.add("NEW", "new")
            assert not members[0].streams()
            with pytest.raises(ServiceUnavailableError):  # it is there, and led by another node
                await js.stream_info("NEW")
            with pytest.raises(APIError) as missing:
                await js.stream_info("OLD")
            assert missing.value.err_code == 10059
            # Neither its name nor its subjects are free; of its name its leader would say why.
            for name, subject, code in (("NEW", "x", 10008), ("X", "new", 10065)):
                with pytest.raises(APIError) as refused:
                    await js.add_stream(name=name, subjects=[subject])
                assert refused.value.err_code == code

    run_within(120, scenario)
