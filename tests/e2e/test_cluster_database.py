"""A cluster of `jetgate-nats-server` over one database, and a nats-server without JetStream in it.

Two members have JetStream, `jetstream { dsn }`: each leads a part, and clients of all use it.
"""

# Subject: several nodes

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError

from tests.e2e.test_cluster import connected, peers, unless_unknown, until_meshed
from tests.e2e.test_drop_in import in_a_loop
from tests.support.dropin import NAMES, DropIn, config
from tests.support.eventually import eventually, observed
from tests.support.nodes import is_balanced
from tests.support.pg import PostgresServer
from tests.support.ports import free_port

OURS, THEIRS = NAMES
MAX_FILE = 1_000_000_000
NO_STORAGE = 10047
SECRET = "authorization { user: route, password: secret }"


def is_healthy(server: DropIn) -> bool:
    return server.get("/healthz")[0] == 200


class Cluster:
    """Its members by name: `one` and `two` have JetStream, `three` is a nats-server without.

    The others dial `one`, and learn of each other from it.
    A member that ended comes back with `start`, where its routes were.
    """

    def __init__(self, place: Path, dsn: str) -> None:
        self.dsn = dsn
        self.members: dict[str, DropIn] = {}
        self._place = place
        self._ports = {"one": free_port(), "two": free_port()}

    def start(self, name: str) -> DropIn:
        routes = "" if name == "one" else f"'{self.route('one')}'"
        port = self._ports.get(name, -1)
        block = f"name: east, listen: '127.0.0.1:{port}', {SECRET}, routes: [{routes}]"
        (self._place / name).mkdir(exist_ok=True)
        lines = ["http: 127.0.0.1:-1", f"server_name: {name}", f"cluster {{ {block} }}"]
        lines.append("lame_duck_grace_period: 60s")  # no client has to go before it was asked
        if name in self._ports:
            lines.append(f"jetstream {{ dsn: $DSN, max_file: {MAX_FILE} }}")
            lines.insert(0, f"DSN: '{self.dsn}'")
        path = config(self._place / name, *lines)
        kind = OURS if name in self._ports else THEIRS
        self.members[name] = DropIn(kind, "-c", path)
        return self.members[name]

    def route(self, name: str) -> str:
        return f"nats://route:secret@127.0.0.1:{self._ports[name]}"

    def settled(self) -> None:
        """Wait until all are linked with all, and those with JetStream lead a half each."""
        until_meshed(*self.members.values())
        eventually(partial(is_balanced, self.dsn, len(self._ports)), within=120)
        for name in self._ports:
            eventually(partial(is_healthy, self[name]), within=120)

    def __getitem__(self, name: str) -> DropIn:
        return self.members[name]

    @property
    def leader(self) -> str:
        """The name of the one that leads."""
        return eventually(lambda: next(filter(self.leads, self._ports), ""), within=120)

    @property
    def follower(self) -> str:
        """The name of the one that serves through it."""
        return "two" if self.leader == "one" else "one"

    def leads(self, name: str) -> bool:
        """Whether it leads, as it says itself."""
        return bool(self[name].page("/jsz")["meta_cluster"].get("leader") == name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, durable: PostgresServer) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), durable.fresh_database())
    try:
        for name in ("one", "two", "three"):
            cluster.start(name)
        cluster.settled()
        yield cluster
    finally:
        for server in cluster.members.values():
            server.__exit__()


@in_a_loop
async def stored_from_everywhere(servers: list[DropIn]) -> None:
    async with connected(*servers) as clients:
        streams = [client.jetstream(timeout=30) for client in clients]
        for stream in streams:
            await observed(partial(unless_unknown, stream.account_info))
        await streams[1].add_stream(name="S", subjects=["s.*"])
        for number, stream in enumerate(streams):
            ack = await observed(partial(unless_unknown, stream.publish, f"s.{number}", b"x"))
            assert ack.seq == number + 1
        for number, stream in enumerate(streams):
            pull = await stream.pull_subscribe("s.*", durable=f"d{number}", stream="S")
            got = await pull.fetch(3, timeout=30)
            assert [message.subject for message in got] == ["s.0", "s.1", "s.2"]
            for message in got:
                await message.ack_sync(timeout=30)
        await streams[2].delete_stream("S")


def test_clients_of_every_member_use_the_jetstream_of_the_leader(cluster: Cluster) -> None:
    stored_from_everywhere(servers=list(cluster.members.values()))


def test_members_with_jetstream_show_it_and_each_other(cluster: Cluster) -> None:
    for name in ("one", "two"):
        shown = cluster[name].page("/varz")
        assert shown["jetstream"]["config"]["store_dir"] == ""
        page = cluster[name].page("/jsz")
        assert "disabled" not in page
        assert page["config"] == shown["jetstream"]["config"]
        assert cluster[name].get("/healthz") == (200, '{"status":"ok"}')
        assert peers(cluster[name]) == {"one", "two", "three"} - {name}
    assert cluster["three"].page("/jsz")["disabled"]
    for name in ("one", "two"):
        cluster[name].until("[INF] JetStream is served: all streams are led")
    assert cluster.dsn not in cluster["one"].log() + json.dumps(cluster["one"].page("/varz"))


@in_a_loop
async def shown_by_infos(cluster: Cluster) -> None:
    async with connected(*cluster.members.values()) as clients:
        streams = [client.jetstream(timeout=30) for client in clients]
        for stream in streams:
            await observed(partial(unless_unknown, stream.account_info))
        await streams[2].add_stream(name="SHOWN", subjects=["shown"], num_replicas=2)
        for stream in streams:
            found = (await stream.stream_info("SHOWN")).cluster
            assert found is not None
            assert (found.name, found.leader) == ("east", cluster.leader)
            assert [each.name for each in found.replicas or ()] == [cluster.follower]

        follower = cluster.follower
        subject = "$JS.API.STREAM.LEADER.STEPDOWN.SHOWN"
        answer = json.loads((await clients[2].request(subject, timeout=30)).data)
        assert answer["success"]

        async def is_moved() -> bool:
            found = (await streams[0].stream_info("SHOWN")).cluster
            return found is not None and found.leader == follower

        await observed(is_moved)
        await observed(partial(unless_unknown, streams[1].delete_stream, "SHOWN"))


def test_infos_name_the_members_that_could_lead_and_a_leader_hands_over(
    cluster: Cluster,
) -> None:
    for name in ("one", "two"):

        def meta(name: str = name) -> dict[str, Any]:
            return dict(cluster[name].page("/jsz")["meta_cluster"])

        eventually(lambda: meta()["cluster_size"] == 2)
        assert (meta()["name"], meta()["leader"]) == ("east", cluster.leader)
    shown_by_infos(cluster=cluster)


async def creates(client: Client) -> bool:
    """Whether a stream that is created through a client's server is led there."""
    server, js = client._server_info["server_name"], client.jetstream(timeout=30)
    found = (await js.add_stream(name="LED", subjects=["led"])).cluster
    await js.delete_stream("LED")
    return found is not None and found.leader == server


@in_a_loop
async def created_at_once(servers: list[DropIn]) -> None:
    """Create streams through all servers at the same time, each of which may have 3 in all."""
    async with connected(*servers) as clients:
        streams = [client.jetstream(timeout=30) for client in clients]
        for stream in streams:
            await observed(partial(unless_unknown, stream.account_info))
        for client in clients[:2]:
            await observed(partial(creates, client), within=60, every=0.2)

        async def create(number: int) -> int:
            config = {"name": f"ROOM-{number}", "max_bytes": MAX_FILE // 3}
            subject = f"$JS.API.STREAM.CREATE.ROOM-{number}"
            client = clients[number % len(clients)]
            answer = await client.request(subject, json.dumps(config).encode(), timeout=30)
            return int(json.loads(answer.data).get("error", {}).get("err_code", 0))

        for _ in range(4):
            codes = await asyncio.gather(*map(create, range(12)))
            assert sorted(codes) == [0] * 3 + [NO_STORAGE] * 9
            made = [number for number, code in enumerate(codes) if not code]
            # Names: a list of infos lacks those of a server that is slow to tell of them.
            told = await clients[0].request("$JS.API.STREAM.NAMES", timeout=30)
            names = {*json.loads(told.data)["streams"]}
            assert names == {f"ROOM-{number}" for number in made}
            for number in made:
                await streams[number % 3].delete_stream(f"ROOM-{number}")


def test_parallel_creates_through_all_members_never_reserve_more_than_there_is(
    cluster: Cluster,
) -> None:
    created_at_once(servers=list(cluster.members.values()))


async def stored(js: JetStreamContext, payload: bytes) -> None:
    """Publish until it is acknowledged: while nobody leads it is refused, or reaches nobody."""

    async def is_stored() -> bool:
        with suppress(APIError, NoStreamResponseError, nats.errors.TimeoutError):
            await js.publish("kept", payload, headers={"Nats-Msg-Id": payload.decode()})
            return True
        return False

    await observed(is_stored, within=120)


@in_a_loop
async def messages_survive(servers: list[DropIn], end: Callable[[], Awaitable[None]]) -> None:
    """What was acknowledged before the leader ends is there behind it, and publishing goes on."""
    async with connected(*servers) as clients:
        streams = [client.jetstream(timeout=30) for client in clients]
        for stream in streams:
            await observed(partial(unless_unknown, stream.account_info))
        await streams[0].add_stream(name="KEPT", subjects=["kept"])
        for number in range(100):
            await stored(streams[number % 2], b"%d" % number)
        await end()
        for number in range(100, 120):
            await stored(streams[number % 2], b"%d" % number)
        pull = await streams[0].pull_subscribe("kept", durable="all", stream="KEPT")
        found: list[int] = []
        while len(found) < 120:
            found += [int(message.data) for message in await pull.fetch(120, timeout=30)]
        assert found == [*range(120)]
        assert all(client.is_connected for client in clients)
        await streams[0].delete_stream("KEPT")


def test_when_the_leader_is_killed_another_leads_and_nothing_is_lost(cluster: Cluster) -> None:
    leader, follower = cluster.leader, cluster.follower

    async def kill() -> None:
        cluster[leader].process.kill()
        cluster[leader].end()

    messages_survive(servers=[cluster[follower], cluster["three"]], end=kill)
    eventually(lambda: cluster.leads(follower))
    cluster[leader].__exit__()
    cluster.start(leader)
    cluster.settled()
    cluster[leader].until("JetStream is served: all streams are led")


def test_a_member_with_another_database_is_refused_with_one_line(
    cluster: Cluster, durable: PostgresServer, tmp_path: Path
) -> None:
    block = f"cluster {{ name: east, listen: '127.0.0.1:-1', routes: ['{cluster.route('one')}'] }}"
    path = config(tmp_path, "http: 127.0.0.1:-1", "server_name: rival", block)
    with DropIn(OURS, "-c", path, "--dsn", durable.fresh_database()) as rival:
        said = 'this server and "rival" have JetStream over two databases'
        cluster["one"].until(said)
        rival.until(said)  # as it was told
        assert not peers(rival)
    assert "rival" not in peers(cluster["one"])


def test_a_server_without_routes_reports_why_it_serves_no_jetstream(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "dsn"
    file.write_text(cluster.dsn + "\n")
    path = config(tmp_path, "http: 127.0.0.1:-1", f"jetstream {{ dsn_file: '{file}' }}")
    with DropIn(OURS, "-c", path) as alone:
        alone.until("there is no route to it; both need cluster {} with one name, and routes")
        unled = "JetStream has not established contact with a meta leader"
        status, text = alone.get("/healthz")
        assert (status, json.loads(text)["error"]) == (503, unled)


def test_lame_duck_mode_of_the_leader_hands_over_before_its_clients_go(
    cluster: Cluster,
) -> None:
    leader, follower = cluster.leader, cluster.follower

    async def leave() -> None:
        cluster[leader].send(signal.SIGUSR2)
        await asyncio.to_thread(cluster[leader].until, "[INF] JetStream Shutdown")
        await observed(lambda: cluster.leads(follower))

    messages_survive(servers=[cluster[leader], cluster["three"]], end=leave)
    order = cluster[leader].log()
    handed = order.index(f"lease groups to {follower}")
    assert handed < order.index("[INF] JetStream Shutdown")
