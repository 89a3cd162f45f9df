"""Servers of one cluster as processes: two of jetgate's command, one nats-server, one mesh.

The first one has JetStream; the others dial it, and learn of each other from it. What they say of
themselves is compared with what the nats-server says.
"""

# Subject: routes, configuration

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

from tests.e2e.test_drop_in import PLAIN, in_a_loop
from tests.e2e.test_monitoring import shape
from tests.support.dropin import NAMES, DropIn, config, run
from tests.support.eventually import eventually, observed
from tests.support.ports import free_port

OURS, THEIRS = NAMES
SECRET = "authorization { user: route, password: secret, timeout: 3 }"
NAMED = ("--cluster_name", "east")
Cluster = dict[str, DropIn]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def place_of(server: DropIn, kind: str = "nats") -> str:
    return server.ports()[kind][0].partition("://")[2]


def peers(server: DropIn) -> set[str]:
    return {route["remote_name"] for route in server.page("/routez")["routes"]}


def until_meshed(*servers: DropIn) -> None:
    """Wait until each has a route to all others."""

    def look() -> bool:
        names = {server.page("/varz")["server_name"]: server for server in servers}
        return all({*peers(server), name} == {*names} for name, server in names.items())

    eventually(look, within=120)


def second(port: int, cluster: int, seed: DropIn) -> DropIn:
    """A server that can come back where it was, by flags alone."""
    route = f"nats://route:secret@{place_of(seed, 'cluster')}"
    return DropIn(
        *(OURS, "-a", "127.0.0.1", "-p", str(port), "-m", "-1", "-n", "two", *NAMED),
        *("--cluster", f"nats://route:secret@127.0.0.1:{cluster}", "--routes", route),
    )


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, ports: tuple[int, int]) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("cluster")
    started: list[DropIn] = []
    members: Cluster = {}
    try:
        store = f'jetstream {{ store_dir: "{place}/store" }}'
        block = f"cluster {{ name: east, listen: '127.0.0.1:-1', {SECRET} }}"
        path = config(place, "http: 127.0.0.1:-1", "server_name: one", store, block)
        started.append(DropIn(OURS, "-c", path))
        started.append(second(*ports, started[0]))
        (place / "three").mkdir()
        route = f"nats://route:secret@{place_of(started[0], 'cluster')}"
        block = f"cluster {{ name: east, listen: '127.0.0.1:-1', {SECRET}, routes: ['{route}'] }}"
        path = config(place / "three", "http: 127.0.0.1:-1", "server_name: three", block)
        started.append(DropIn(THEIRS, "-c", path))
        until_meshed(*started)
        members = dict(zip(("one", "two", "three"), started, strict=True))
        yield members
    finally:
        for server in members.values() or started:  # one may be another meanwhile
            server.__exit__()


@asynccontextmanager
async def connected(*servers: DropIn) -> AsyncIterator[list[Client]]:
    """A client of each."""
    clients = [await nats.connect(server.url) for server in servers]
    try:
        yield clients
    finally:
        for client in clients:
            await client.close()


async def settled(subscriber: Client, *other_members: Client) -> None:
    """Wait until the others' servers know what `subscriber` subscribes to by now."""
    mark = subscriber.new_inbox()
    got = await subscriber.subscribe(mark)
    for each in other_members:

        async def heard(client: Client = each) -> bool:
            await client.publish(mark)
            with suppress(nats.errors.TimeoutError):
                return bool(await got.next_msg(timeout=0.2))
            return False

        await observed(heard, within=60)
    await got.unsubscribe()


def test_the_first_lines_are_those_of_nats_server(cluster: Cluster) -> None:
    for name, server in cluster.items():
        texts = server.texts()
        place = place_of(server, "cluster")
        for text in (
            "[INF]   Cluster:  east",
            f"[INF]   Name:     {name}",
            "[INF] Cluster name is east",
            f"[INF] Listening for route connections on {place}",
        ):
            assert text in texts
        created = [text for text in texts if text.endswith(" - Route connection created")]
        assert all(" - rid:" in text for text in created)
        assert len(created) >= 2


@in_a_loop
async def messages_everywhere(servers: list[DropIn]) -> None:
    async with connected(*servers) as clients:
        inboxes = [await client.subscribe("news.*") for client in clients]
        workers = [await client.subscribe("work", "group") for client in clients]
        for client in clients:
            await settled(client, *clients)
        for number, client in enumerate(clients):
            await client.publish(f"news.{number}", b"hi", headers={"A": "b"})
            for inbox in inboxes:
                got = await inbox.next_msg(timeout=30)
                assert (got.subject, got.data, got.headers) == (f"news.{number}", b"hi", {"A": "b"})
        for client in clients:
            for _ in range(20):
                await client.publish("work", b"x")
        await observed(lambda: sum(each.pending_msgs for each in workers) == 60)


def test_messages_go_from_every_server_to_all(cluster: Cluster) -> None:
    messages_everywhere(servers=list(cluster.values()))


@in_a_loop
async def requests_between(asked: DropIn, servers: list[DropIn]) -> None:
    async with connected(asked, *servers) as (serving, *asking):

        async def answer(message: Any) -> None:
            await message.respond(message.data.upper())

        await serving.subscribe("service", cb=answer)
        await settled(serving, *asking)
        for client in asking:
            assert (await client.request("service", b"q", timeout=30)).data == b"Q"
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request("nobody", b"", timeout=30)


def test_requests_are_answered_from_every_server(cluster: Cluster) -> None:
    for name in cluster:
        requests_between(asked=cluster[name], servers=list(cluster.values()))


async def unless_unknown(call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """The result; nothing while the client's server does not know yet who serves that."""
    unknown = (NoStreamResponseError, ServiceUnavailableError, nats.errors.NoRespondersError)
    with suppress(*unknown):
        return await call(*arguments)
    return None


@in_a_loop
async def stored_by_the_first(servers: list[DropIn]) -> None:
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
        assert (await streams[2].stream_info("S")).state.messages == 3
        await streams[2].delete_stream("S")


def test_jetstream_of_one_server_serves_clients_of_all(cluster: Cluster) -> None:
    stored_by_the_first(servers=list(cluster.values()))


def test_another_server_with_jetstream_is_refused_with_one_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    route = f"nats://route:secret@{place_of(cluster['one'], 'cluster')}"
    block = f"cluster {{ name: east, listen: '127.0.0.1:-1', routes: ['{route}'] }}"
    store = f'jetstream {{ store_dir: "{tmp_path}/store" }}'
    path = config(tmp_path, "server_name: rival", store, block)
    with DropIn(OURS, "-c", path) as rival:
        rival.until('this server and "one" both have JetStream')
        assert "[WRN] JetStream is served by this server alone" in rival.log()
    assert "rival" not in peers(cluster["one"])


def info(server: DropIn) -> dict[str, Any]:
    place = server.address
    with socket.create_connection(place, timeout=30) as connection, connection.makefile("rb") as f:
        return dict(json.loads(f.readline().removeprefix(b"INFO ")))


def test_clients_learn_all_servers_their_own_first(cluster: Cluster) -> None:
    places = {place_of(server) for server in cluster.values()}
    for server in cluster.values():
        # Who was in the cluster a moment ago may still be known.
        eventually(lambda server=server: set(info(server)["connect_urls"]) == places)  # type: ignore[misc]
        told = info(server)
        assert told["cluster"] == "east"
        assert told["connect_urls"][0] == place_of(server)
        shown = server.page("/varz")
        assert (shown["connect_urls"], shown["remotes"]) == (told["connect_urls"], 2)


def ordered(value: Any) -> Any:
    """With the order of members."""
    return list(value.items()) if isinstance(value, dict) else value


@pytest.mark.parametrize("path", ["/routez", "/routez?subs=1", "/routez?subs=detail"])
def test_routes_are_shown_with_the_same_fields(cluster: Cluster, path: str) -> None:
    @in_a_loop
    async def compare() -> None:
        async with connected(*cluster.values()) as clients:
            await clients[0].subscribe("shown.*")
            await clients[0].subscribe("shown.*", "group")
            await settled(*clients)
            seen = []
            for name in ("two", "three"):
                page = await asyncio.to_thread(cluster[name].page, path)
                routes = page.pop("routes")
                # nats-server has connections of other accounts beside this one, to its own kind.
                [route] = [r for r in routes if r["remote_name"] == "one"]
                listed = route.pop("subscriptions_list", None)
                detailed = route.pop("subscriptions_list_detail", ())
                mine = [each for each in detailed if each["subject"] == "shown.*"]
                for each in mine:
                    assert each.pop("cid") == route["rid"]
                    # nats-server's begins with `R ` if the peer has other servers as leaves.
                    assert "$G shown.*" in each.pop("sid")
                route.pop("rtt", None)  # not known in the beginning
                route["list"] = sorted(s for s in listed or () if s == "shown.*")
                route["detail"] = sorted(map(str, mine))
                seen.append((ordered(shape(page)), list(route), route["list"], route["detail"]))
            assert seen[0] == seen[1]

    compare()


def test_the_server_shows_its_cluster_with_the_same_fields(cluster: Cluster) -> None:
    ours, theirs = (cluster[name].page("/varz") for name in ("two", "three"))

    assert [*shape(ours)] == [*shape(theirs)]
    assert ordered(shape(ours["cluster"])) == ordered(shape(theirs["cluster"]))
    assert ours["cluster"]["name"] == theirs["cluster"]["name"]
    assert cluster["one"].page("/varz")["cluster"]["auth_timeout"] == 3


@in_a_loop
async def carried(servers: list[DropIn]) -> None:
    """What crosses a route is counted there, and by kind."""
    async with connected(*servers) as clients:
        inbox = await clients[0].subscribe("counted")
        await settled(*clients)
        for client, server in zip(clients[1:], servers[1:], strict=True):
            await client.flush()
            before = await asyncio.to_thread(out_to_routes, server)
            await client.publish("counted", b"12345")
            await inbox.next_msg(timeout=30)
            wanted = [number + more for number, more in zip(before, (1, 5, 1, 5), strict=True)]

            async def is_counted(server: DropIn = server, wanted: list[int] = wanted) -> bool:
                return await asyncio.to_thread(out_to_routes, server) == wanted

            await observed(is_counted)


def out_to_routes(server: DropIn) -> list[int]:
    """Messages and bytes to the first server: as its route says, and all routes of the account."""
    routes = server.page("/routez")["routes"]
    [route] = [r for r in routes if r["remote_name"] == "one"]
    [account] = [a for a in server.page("/accstatz")["account_statz"] if a["acc"] == "$G"]
    to_routes = account["sent"]["routes"]
    return [route["out_msgs"], route["out_bytes"], to_routes["msgs"], to_routes["bytes"]]


def test_messages_over_a_route_are_counted(cluster: Cluster) -> None:
    carried(servers=list(cluster.values()))


def test_a_reload_adds_routes_and_takes_them_away(
    name: str, cluster: Cluster, tmp_path: Path
) -> None:
    route = f"nats://route:secret@{place_of(cluster['one'], 'cluster')}"
    block = f"cluster {{ name: east, listen: '127.0.0.1:-1', {SECRET}, routes: [%s] }}"
    options = ("http: 127.0.0.1:-1", "server_name: late")
    path = config(tmp_path, *options, block % "")
    with DropIn(name, "-c", path) as server:
        mine = place_of(server)

        config(tmp_path, *options, block % f"'{route}'")
        server.send(signal.SIGHUP)
        server.until("[INF] Reloaded: cluster routes")
        until_meshed(server, *cluster.values())
        eventually(partial(knows, cluster["three"], "late", mine))

        block = block.replace("listen", "no_advertise: true, listen")
        config(tmp_path, *options, block % f"'{route}'")
        server.send(signal.SIGHUP)
        server.until("[INF] Reloaded: cluster\n")

        config(tmp_path, *options, block % "")
        server.send(signal.SIGHUP)
        server.until("[INF] Removed route ")
    for other in cluster.values():
        eventually(partial(has_forgotten, other, "late", mine))


def test_only_a_server_with_the_password_becomes_a_route(cluster: Cluster) -> None:
    seed = place_of(cluster["one"], "cluster")
    flags = (*PLAIN, "-m", "-1", *NAMED, "--cluster", "nats://127.0.0.1:-1")
    with DropIn(OURS, *flags, "-n", "stranger", "--routes", f"nats://{seed}") as stranger:
        stranger.until("Authorization Violation")
        assert "stranger" not in peers(cluster["one"])


@in_a_loop
async def moves(cluster: Cluster, kill: signal.Signals) -> None:
    """A client that knows one server only goes to another when that ends."""
    moved = asyncio.Event()

    async def reconnected() -> None:
        moved.set()

    victim = cluster["two"]
    client = await nats.connect(
        victim.url, reconnected_cb=reconnected, reconnect_time_wait=0.05, max_reconnect_attempts=-1
    )
    try:
        inbox = await client.subscribe("moved")
        await client.flush()
        victim.send(kill)
        async with asyncio.timeout(120):
            await moved.wait()
        assert client.connected_url is not None
        assert client.connected_url.netloc in {place_of(cluster[n]) for n in ("one", "three")}
        async with connected(cluster["one"]) as [other]:
            await settled(client, other)
            await other.publish("moved", b"here")
            assert (await inbox.next_msg(timeout=30)).data == b"here"
    finally:
        await client.close()


def knows(server: DropIn, name: str, place: str) -> bool:
    """Whether it has a route to another one, and tells its clients of it."""
    return name in peers(server) and place in info(server)["connect_urls"]


def has_forgotten(server: DropIn, name: str, place: str) -> bool:
    return name not in peers(server) and place not in info(server)["connect_urls"]


def test_a_stopped_server_is_noticed_and_comes_back(cluster: Cluster) -> None:
    """Nobody tells of it: its connections stay open."""
    witness, stopped = cluster["one"], cluster["two"]
    stopped.send(signal.SIGSTOP)
    try:
        eventually(lambda: "two" not in peers(witness))
        assert any(text.endswith("Stale Connection") for text in witness.texts())
    finally:
        stopped.send(signal.SIGCONT)
    until_meshed(*cluster.values())
    messages_everywhere(servers=list(cluster.values()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR2])
def test_clients_move_to_another_server_and_the_dead_one_comes_back(
    cluster: Cluster, ports: tuple[int, int], number: signal.Signals
) -> None:
    gone = place_of(cluster["two"])
    other_members = [cluster["one"], cluster["three"]]
    if number == signal.SIGUSR2:
        announces_lame_duck_mode(cluster)
    else:
        moves(cluster=cluster, kill=number)
    cluster["two"].__exit__()
    for server in other_members:
        eventually(partial(has_forgotten, server, "two", gone))

    cluster["two"] = second(*ports, cluster["one"])

    until_meshed(*cluster.values())
    for server in other_members:
        eventually(partial(knows, server, "two", gone))
    messages_everywhere(servers=list(cluster.values()))


def announces_lame_duck_mode(cluster: Cluster) -> None:
    victim, witness = cluster["two"], cluster["one"]
    gone = place_of(victim)
    other_members = {place_of(cluster[name]) for name in ("one", "three")}
    with (
        socket.create_connection(victim.address, timeout=60) as leaving,
        socket.create_connection(witness.address, timeout=60) as staying,
    ):
        for connection in (leaving, staying):
            connection.sendall(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
        with leaving.makefile("rb") as told, staying.makefile("rb") as told_there:
            for lines in (told, told_there):
                next_info(lines, lambda wording: "connect_info" in wording)
            victim.send(signal.SIGUSR2)
            assert (
                set(next_info(told, lambda wording: "ldm" in wording)["connect_urls"])
                == other_members
            )
            there = next_info(told_there, lambda wording: gone not in wording["connect_urls"])
            assert "ldm" not in there
    victim.send(signal.SIGINT)
    victim.end()


def next_info(lines: BinaryIO, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The next INFO that is wanted."""
    for line in lines:
        if line.startswith(b"INFO "):
            wording: dict[str, Any] = json.loads(line.removeprefix(b"INFO "))
            if wanted(wording):
                return wording
    raise AssertionError("the connection was closed")


# -- on its own, compared


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        (["--routes", "nats://127.0.0.1:1"], "nats-server: solicited routes require cluster cap"),
        (["--cluster", "nats://127.0.0.1:-1", "--cluster_name", "a b"], "cannot contain spaces\n"),
        (
            ["--cluster", "nats://127.0.0.1:99999"],
            "Error listening on router port: 99999 - listen tcp: address 99999: invalid port\n",
        ),
        (
            ["--cluster", "nats://127.0.0.1:-1", "--cluster_advertise", "x:y"],
            "[FTL] Error setting route INFO with Cluster.Advertise value of x:y,"
            ' err=strconv.Atoi: parsing "y": invalid syntax\n',
        ),
        (
            ["--cluster", "nats://127.0.0.1:-1", "--cluster_advertise", "a:b:c"],
            "[FTL] Error setting route INFO with Cluster.Advertise value of a:b:c,"
            " err=address a:b:c: too many colons in address\n",
        ),
    ],
)
def test_an_impossible_cluster_is_reported_in_one_line(
    name: str, arguments: list[str], wording: str
) -> None:
    ended = run(name, *PLAIN, *arguments)

    assert ended.returncode == 1
    assert wording in ended.stderr


def test_a_route_port_that_is_taken_is_fatal(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(name, *PLAIN, "--cluster", f"nats://127.0.0.1:{port}")

    assert ended.returncode == 1
    reason = f"listen tcp 127.0.0.1:{port}: bind: address already in use"
    assert ended.stderr.endswith(f"[FTL] Error listening on router port: {port} - {reason}\n")


def test_a_made_up_name_is_warned_of_and_no_reload_moves_the_port(
    name: str, tmp_path: Path
) -> None:
    unreachable = free_port()
    routes = f"routes: ['nats://127.0.0.1:{unreachable}']"
    path = config(tmp_path, f"cluster {{ listen: '127.0.0.1:-1', {routes} }}")
    with DropIn(name, "-c", path) as server:
        server.ports()
        server.until("[WRN] Cluster name was dynamically generated, consider setting one")
        server.until(
            "[ERR] Error trying to connect to route (attempt 1):"
            f" dial tcp 127.0.0.1:{unreachable}: connect: connection refused"
        )
        made_up = info(server)["cluster"]
        assert f"[INF] Cluster name is {made_up}" in server.texts()
        assert "connect_urls" not in info(server)

        config(tmp_path, "cluster { listen: '127.0.0.1:6222' }")
        server.send(signal.SIGHUP)
        server.until(", new=6222")
        assert "config reload not supported for cluster port: old=" in server.log()


def test_settings_of_routes_without_effect_are_warned_of(tmp_path: Path) -> None:
    lines = ("pool_size: 5", "accounts: [A]", "compression: s2_fast", "ping_interval: '5s'")
    path = config(tmp_path, "cluster { name: x, listen: '127.0.0.1:-1'", *lines, "}")
    with DropIn(OURS, "-c", path) as server:
        server.ports()
        warned = [text for text in server.texts() if text.startswith("[WRN] cluster ")]
        for line in lines:
            [_one] = [text for text in warned if f" {line.partition(':')[0]} has no effect" in text]

        config(tmp_path, "cluster { name: y, listen: '127.0.0.1:-1' }")
        server.send(signal.SIGHUP)
        server.until("config reload not supported for cluster name: old=x, new=y")


def test_a_mapping_may_be_for_the_cluster(name: str, tmp_path: Path) -> None:
    mapped = "{ dest: far, weight: 100%, cluster: east }, { dest: near, weight: 100% }"
    path = config(tmp_path, "cluster { name: east }", f"mappings {{ here: [ {mapped} ] }}")
    with DropIn(name, "-c", path) as server:
        place = server.address
        with socket.create_connection(place, timeout=30) as client, client.makefile("rb") as lines:
            client.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPUB here 0\r\n\r\nPING\r\n')
            assert b"MSG far 1 0\r\n" in iter(lines.readline, b"PONG\r\n")
