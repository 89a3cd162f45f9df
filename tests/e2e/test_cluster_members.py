"""What a cluster says of itself, and who leads in it: three nats-server, three `jetgate serve`."""

# Subject: cluster members, placement

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from operator import itemgetter
from typing import Any

import asyncpg
import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError, TimeoutError
from nats.js.errors import ServiceUnavailableError

from tests.support.cluster import NatsMember, nats_server
from tests.support.eventually import observed
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer
from tests.support.ports import free_port
from tests.support.scenario import run_within

USER = {"user": "app", "password": "a"}
SYSTEM = {"user": "sys", "password": "s"}
FLAGS = ("--user", "app", "--pass", "a", "--system-user", "sys", "--system-pass", "s")
LINES = (
    "accounts { $SYS { users: [{user: sys, password: s}] } }",
    "authorization { users: [{user: app, password: a}] }",
)
TAGS = (("SSD", " eu ", "ssd"), ("ssd",), ())
"""Those of each server."""
NO_PEERS, NOT_FOUND, NO_CONSUMER, BAD, JSON = 10005, 10059, 10014, 10003, 10025
NOT_PEER, NOT_MEMBER, REMAP, NOT_MOVING = 10040, 10044, 10075, 10129
TRIES = 3
GROUP = re.compile(r"[SC]-R\d[FM]-[0-9A-Za-z]{8}")


class System:
    """Three servers of one cluster."""

    def __init__(self, addresses: list[tuple[str, int]], dsn: str = "") -> None:
        self.addresses = addresses
        self.dsn = dsn

    @property
    def is_ours(self) -> bool:
        return bool(self.dsn)

    @asynccontextmanager
    async def client(self, who: dict[str, str] = USER, at: int = 0) -> AsyncIterator["Asking"]:
        host, port = self.addresses[at]
        connection = await nats.connect(
            f"nats://{host}:{port}", allow_reconnect=False, connect_timeout=30, **who
        )
        try:
            yield Asking(connection)
        finally:
            await connection.close()


class Asking:
    """A client that asks the API."""

    def __init__(self, connection: Client) -> None:
        self.connection = connection

    async def ask(self, subject: str, body: object = "", within: float = 30) -> dict[str, Any]:
        text = body if isinstance(body, str) else json.dumps(body)
        answer = await self.connection.request("$JS.API." + subject, text.encode(), within)
        return dict(json.loads(answer.data))

    async def code(self, subject: str, body: object = "") -> int:
        """The number of the error; 0: success."""
        answer = await self.ask(subject, body)
        return int(answer.get("error", {}).get("err_code", 0))

    async def stream(self, name: str, replicas: int = 3, **config: Any) -> dict[str, Any]:
        asked = {"name": name, "num_replicas": replicas, **config}
        if "mirror" not in config:
            asked["subjects"] = [f"{name}.>"]
        answer = await self.ask(f"STREAM.CREATE.{name}", asked)
        assert "error" not in answer, answer
        return answer

    async def led(self, name: str, but: str = "") -> dict[str, Any]:
        """The cluster of a stream, once it has a leader, another one than that.

        Since when it leads, the leader alone says: the reference lets others answer before it does.
        """

        async def look() -> dict[str, Any] | None:
            try:
                answer = await self.ask(f"STREAM.INFO.{name}", within=5)
            except (NoRespondersError, TimeoutError):
                return None
            found = dict(answer.get("cluster", {}))
            is_by_leader = "leader_since" in found or "replicas" not in found
            return found if is_by_leader and found.get("leader", but) != but else None

        return await observed(look, within=60)

    async def stays(self, name: str) -> None:
        """Have a stream where it stays for some seconds: where it came since a client wanted it.

        Others move at any time on jetgate, so that all nodes lead about as many.
        """
        before = (await self.led(name))["leader"]
        assert await self.code(f"STREAM.LEADER.STEPDOWN.{name}") == 0
        await self.led(name, but=before)


@pytest.fixture(scope="module", params=["nats-server", "jetgate"])
def system(request: pytest.FixtureRequest, durable: PostgresServer) -> Iterator[System]:
    with ExitStack() as stack:
        if request.param == "jetgate":
            dsn = durable.fresh_database()
            nodes = stack.enter_context(Nodes(dsn, 3, *FLAGS, tags=TAGS))
            system = System([node.address for node in nodes.all], dsn)
            run_within(180, lambda: _all_known(system))
            yield system
            return
        members = _members()
        for member in members:
            stack.callback(member.stop)
        for member in members:
            member.start()
        system = System([member.address for member in members])
        run_within(180, lambda: _ready(system))
        yield system


def _members() -> list[NatsMember]:
    ports = [free_port() for _ in range(3)]
    members = [nats_server(port=port, ports=ports, lines=LINES) for port in ports]
    for number, member in enumerate(members):
        member.add(f"server_name: n{number}", f'jetstream {{ store_dir: "{member.dir}/js" }}')
        member.add(f"server_tags: {json.dumps(TAGS[number])}")
    return members


async def _ready(system: System) -> None:
    async with system.client() as client:

        async def can_create() -> bool:
            try:
                answer = await client.ask("STREAM.CREATE.ready", {"name": "ready"}, within=0.5)
                return "error" not in answer
            except (NoRespondersError, TimeoutError):
                return False

        await observed(can_create, within=60)


async def _names(system: System) -> list[str]:
    """The name of each server."""
    names = []
    for at in range(3):
        async with system.client(at=at) as client:
            names.append(str(client.connection._server_info["server_name"]))
    return names


async def _all_known(system: System) -> None:
    """Return when every node has read the rows of all, which it does with its heartbeats."""
    async with system.client(SYSTEM) as operator:

        async def look() -> bool:
            pages = await _pages(operator.connection, 3)
            return all(page["meta_cluster"]["cluster_size"] == 3 for page in pages)

        await observed(look, within=60)


def check_one(cluster: dict[str, Any]) -> None:
    """One replica: the leader, and nothing else."""
    assert list(cluster) == ["name", "leader"]


def check_many(cluster: dict[str, Any], peers: int) -> None:
    """Several replicas: the leader, and the others in the order of their names."""
    shown = ["name", "raft_group", "leader", "leader_since", "system_account", "traffic_account"]
    assert list(cluster) == [*shown, "replicas"]
    assert GROUP.fullmatch(cluster["raft_group"])
    assert cluster["traffic_account"] == "$SYS"
    names = [each["name"] for each in cluster["replicas"]]
    assert names == sorted({*names} - {cluster["leader"]})
    assert len(names) == peers
    for each in cluster["replicas"]:
        assert {"name", "current", "active", "peer"} <= {*each} <= PEER
        assert len(each["peer"]) == 8


PEER = {"name", "current", "offline", "active", "lag", "peer"}


def test_infos_name_the_leader_and_the_nodes_that_could_lead(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client:
            for name, replicas in (("one", 1), ("two", 2), ("three", 3)):
                created = await client.stream(name, replicas)
                config = created["config"]
                updated = await client.ask(f"STREAM.UPDATE.{name}", config)
                info = await client.led(name)
                for cluster in (created["cluster"], updated["cluster"], info):
                    if replicas == 1:
                        check_one(cluster)
                    else:
                        check_many(cluster, replicas - 1)
                        assert cluster["raft_group"].startswith(f"S-R{replicas}F-")
            listed = await client.ask("STREAM.LIST")
            assert all("cluster" in each for each in listed["streams"])

    run_within(180, scenario)


def test_consumers_have_the_replicas_of_their_stream_by_default(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client:
            await client.stream("C")
            await client.stream("W", retention="workqueue")
            wanted: list[tuple[str, dict[str, Any], int]] = [
                ("C", {"durable_name": "own", "num_replicas": 2}, 2),
                ("C", {"durable_name": "first", "num_replicas": 1}, 1),
                ("C", {"durable_name": "durable"}, 3),
                ("C", {"name": "ephemeral"}, 1),
                ("C", {"durable_name": "memory", "mem_storage": True}, 3),
                ("W", {"name": "work"}, 3),
            ]
            for stream, config, replicas in wanted:
                name = config.get("durable_name") or config["name"]
                body = {"stream_name": stream, "config": {"ack_policy": "explicit"} | config}
                created = await client.ask(f"CONSUMER.CREATE.{stream}.{name}", body)
                info = await client.ask(f"CONSUMER.INFO.{stream}.{name}")
                for cluster in (created["cluster"], info["cluster"]):
                    if replicas == 1:
                        check_one(cluster)
                    else:
                        check_many(cluster, replicas - 1)
                        letter = "M" if name == "memory" else "F"
                        assert cluster["raft_group"].startswith(f"C-R{replicas}{letter}-")
            listed = await client.ask("CONSUMER.LIST.C")
            assert all("cluster" in each for each in listed["consumers"])

    run_within(180, scenario)


def test_how_many_replicas_are_allowed(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client:
            for replicas, code in ((0, 0), (1, 0), (2, 0), (3, 0), (6, 10052), (-1, 10133)):
                config = {"name": "R", "num_replicas": replicas, "subjects": ["R.>"]}
                first = "UPDATE" if replicas > 0 else "CREATE"
                assert await client.code(f"STREAM.{first}.R", config) == code, replicas
            for replicas in (4, 5):  # PostgreSQL replicates, however few nodes live
                config = {"name": f"R{replicas}", "num_replicas": replicas}
                code = await client.code(f"STREAM.CREATE.R{replicas}", config)
                assert code == (0 if system.is_ours else NO_PEERS)
            await client.stream("limits")
            await client.stream("interest", retention="interest")
            refused = (
                ("limits", 4, 10126),
                ("limits", -1, 10133),
                ("interest", 1, 10134),
                ("interest", 2, 10134),
                ("interest", 0, 0),
                ("interest", 3, 0),
            )
            for stream, replicas, code in refused:
                consumer = {"durable_name": f"c{replicas}", "num_replicas": replicas}
                body = {"stream_name": stream, "config": consumer | {"ack_policy": "explicit"}}
                asked = f"CONSUMER.CREATE.{stream}.c{replicas}"
                assert await client.code(asked, body) == code, (stream, replicas)

    run_within(180, scenario)


def test_a_stream_names_its_mirrors_as_alternates(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client:
            await client.stream("origin", 1)
            created = await client.stream("copy", 1, mirror={"name": "origin"})
            await client.stream("second", 1, mirror={"name": "copy"})
            name = (await client.led("origin"))["name"]
            for stream, peers in (("origin", ["copy"]), ("copy", ["second"]), ("second", [])):
                info = await client.ask(f"STREAM.INFO.{stream}")
                named = sorted([stream, *peers]) if peers else []
                found = sorted(info.get("alternates", ()), key=itemgetter("name"))  # in no order
                assert found == [{"name": each, "cluster": name} for each in named]
            assert "alternates" not in created

    run_within(180, scenario)


def preferred(name: str) -> dict[str, Any]:
    return {"placement": {"preferred": name}}


def test_requests_about_leaders_and_peers_are_refused_as_in_a_cluster(system: System) -> None:
    kinds: tuple[dict[str, object], ...] = ({"cluster": "x"}, {"tags": ["x"]})
    elsewhere = [{"placement": kind} for kind in kinds]

    async def scenario() -> None:
        async with system.client() as client:
            await client.stream("S")
            body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
            await client.ask("CONSUMER.CREATE.S.C", body)
            if system.is_ours:
                await client.stays("S")
            leader = (await client.led("S"))["leader"]
            expected: list[tuple[str, object, int]] = [
                ("STREAM.LEADER.STEPDOWN.no", "[]", NOT_FOUND),
                ("STREAM.LEADER.STEPDOWN.S", "[]", JSON),
                ("STREAM.LEADER.STEPDOWN.S", {"x": 1}, JSON),
                *(("STREAM.LEADER.STEPDOWN.S", body, NO_PEERS) for body in elsewhere),
                ("STREAM.LEADER.STEPDOWN.S", preferred("x"), NO_PEERS),
                ("STREAM.LEADER.STEPDOWN.S", preferred(leader), NO_PEERS),
                ("CONSUMER.LEADER.STEPDOWN.no.C", {"x": 1}, NOT_FOUND),
                ("CONSUMER.LEADER.STEPDOWN.S.no", {"x": 1}, NO_CONSUMER),
                ("CONSUMER.LEADER.STEPDOWN.S.C", {"x": 1}, JSON),
                ("CONSUMER.LEADER.STEPDOWN.S.C", preferred("x"), NO_PEERS),
                ("STREAM.CANCEL_MOVE.no", "", NOT_FOUND),
                ("STREAM.CANCEL_MOVE.S", "", NOT_MOVING),
            ]
            for verb in ("REMOVE", "EVACUATE"):
                expected += [
                    (f"STREAM.PEER.{verb}.no", "", BAD),
                    (f"STREAM.PEER.{verb}.no", {"peer": "x"}, NOT_FOUND),
                    (f"STREAM.PEER.{verb}.S", "x", JSON),
                    (f"STREAM.PEER.{verb}.S", {"peer": ""}, BAD),
                    (f"STREAM.PEER.{verb}.S", {"peer": "x"}, NOT_PEER),
                    (f"STREAM.PEER.{verb}.S", {"peer": leader}, REMAP),
                    (f"CONSUMER.PEER.{verb}.no.C", {"peer": "x"}, NOT_FOUND),
                    (f"CONSUMER.PEER.{verb}.S.C", {"peer": "x"}, NOT_PEER),
                    (f"CONSUMER.PEER.{verb}.S.C", {"peer": leader}, REMAP),
                ]
            for subject, asked, code in expected:
                assert await client.code(subject, asked) == code, (subject, asked)

    run_within(180, scenario)


def replicas(cluster: dict[str, Any]) -> list[str]:
    """Their names; while peers change, the reference shows none."""
    return [each["name"] for each in cluster.get("replicas") or ()]


def test_a_peer_that_is_removed_gives_its_place_to_the_node_that_had_none(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client:
            everybody = {str(each) for each in await _names(system)}
            await client.stream("PEERS", 2)
            await client.stream("ALL", 3)
            config = {"durable_name": "C", "ack_policy": "explicit", "num_replicas": 2}
            body = {"stream_name": "ALL", "config": config}
            created = await client.ask("CONSUMER.CREATE.ALL.C", body)
            assert "error" not in created, created
            for verb, path in (("STREAM", "PEERS"), ("CONSUMER", "ALL.C")):
                if system.is_ours:
                    await client.stays(path.partition(".")[0])

                async def found(verb: str = verb, path: str = path) -> dict[str, Any] | None:
                    answer = await client.ask(f"{verb}.INFO.{path}")
                    shown = dict(answer.get("cluster", {}))
                    return shown if "leader" in shown and len(replicas(shown)) == 1 else None

                before = await observed(found)
                [removed] = replicas(before)
                [free] = everybody - {before["leader"], removed}
                answer = await client.ask(f"{verb}.PEER.REMOVE.{path}", {"peer": removed})
                assert answer.pop("type").endswith(f"{verb.lower()}_remove_peer_response")
                assert answer == {"success": True}

                async def is_replaced() -> bool:
                    now = await found() or {}
                    wanted = before["leader"], [free]  # noqa: B023
                    return (now.get("leader"), replicas(now)) == wanted

                await observed(is_replaced)

            # A consumer is among the nodes of its stream.
            body = {"stream_name": "PEERS", "config": {**config, "durable_name": "D"}}
            await client.ask("CONSUMER.CREATE.PEERS.D", body)
            shown = (await client.ask("STREAM.INFO.PEERS"))["cluster"]
            body = {"peer": replicas(shown)[0]}
            refused = (await client.ask("CONSUMER.PEER.REMOVE.PEERS.D", body))["error"]
            assert refused["err_code"] == REMAP
            assert replicas((await client.ask("STREAM.INFO.PEERS"))["cluster"]) == replicas(shown)

    run_within(180, scenario)


def test_a_stream_goes_on_when_its_leader_is_removed_from_its_peers(system: System) -> None:
    if not system.is_ours:  # it answers the same, and has no leader for 5 to 8 seconds
        return

    async def scenario() -> None:
        async with system.client() as client, system.client(at=1) as publisher:
            await client.stream("LEFT", 2)
            js = publisher.connection.jetstream()
            assert (await js.publish("LEFT.x", b"1", timeout=30)).seq == 1
            removed = (await client.led("LEFT"))["leader"]
            answer = await client.ask("STREAM.PEER.REMOVE.LEFT", {"peer": removed})
            assert answer.get("success"), answer

            after = await client.led("LEFT", but=removed)
            assert len(replicas(after)) == 1
            assert (await js.publish("LEFT.x", b"2", timeout=30)).seq == 2
            assert (await client.ask("STREAM.INFO.LEFT"))["state"]["messages"] == 2

    run_within(180, scenario)


def placed(name: str, *tags: str) -> dict[str, object]:
    """What creates or changes a stream that asks for tags."""
    return {"name": name, "placement": {"tags": list(tags)}}


def test_tags_that_no_server_has_are_refused(system: System) -> None:
    async def lacked(client: Asking, verb: str, *tags: str) -> list[str]:
        """The tags that a refusal names, which are in no order."""
        answer = await client.ask(f"STREAM.{verb}.TAG", placed("TAG", *tags))
        error = answer["error"]
        assert (error["code"], error["err_code"]) == (400, NO_PEERS)
        text, _, named = error["description"].partition(" [")
        assert text == "no suitable peers for placement, tags not matched"
        return sorted(named.removesuffix("]").split(", "))

    async def scenario() -> None:
        async with system.client(at=2) as client:
            assert await lacked(client, "CREATE", "no") == ["'no'"]
            assert await lacked(client, "CREATE", "ssd", "no") == ["'no'", "'ssd'"]
            assert await lacked(client, "CREATE", "ssd", "eu", "no") == ["'eu'", "'no'", "'ssd'"]
            assert await lacked(client, "CREATE", " NO") == ["' NO'"]
            assert await lacked(client, "CREATE", "") == ["''"]
            for name, asked in (("WITHOUT", ["!ssd"]), ("EITHER", ["ssd", "! EU"])):
                assert await client.code(f"STREAM.CREATE.{name}", placed(name, *asked)) == 0
            refused = await client.ask("STREAM.CREATE.NOT", placed("NOT", "!Ssd", "no"))
            why = "tags not matched ['no'], tags excluded ['Ssd']"
            text = f"no suitable peers for placement, {why}"
            assert refused["error"]["description"] == text
            created = await client.ask("STREAM.CREATE.TAG", placed("TAG", "ssd", "eu"))
            assert created["config"]["placement"] == {"tags": ["ssd", "eu"]}
            assert await lacked(client, "UPDATE", "no") == ["'no'"]
            for tags in (("ssd", "eu"), (" SSD",)):
                assert await client.code("STREAM.UPDATE.TAG", placed("TAG", *tags)) == 0, tags

    run_within(180, scenario)


def test_another_cluster_than_this_one_is_refused(system: System) -> None:
    async def scenario() -> None:
        async with system.client(at=1) as client:
            await client.stream("FIRST")
            own = (await client.led("FIRST"))["name"]
            for name, cluster, code in (("OWN", own, 0), ("OTHER", "other", NO_PEERS)):
                asked = {"name": name, "placement": {"cluster": cluster}}
                assert await client.code(f"STREAM.CREATE.{name}", asked) == code
            asked = {"name": "OWN", "placement": {"cluster": "other", "tags": ["no"]}}
            refused = await client.ask("STREAM.UPDATE.OWN", asked)
            assert refused["error"]["description"] == "no suitable peers for placement"

    run_within(180, scenario)


def test_tags_may_choose_the_next_leader(system: System) -> None:
    async def scenario() -> None:
        names = await _names(system)
        async with system.client(at=2) as client:
            await client.stream("NEXT")
            if system.is_ours:
                await client.stays("NEXT")
            if (await client.led("NEXT"))["leader"] == names[0]:
                assert await client.code("STREAM.LEADER.STEPDOWN.NEXT", preferred(names[2])) == 0
                await client.led("NEXT", but=names[0])
            for tag, leader in (("EU ", names[0]), ("ssd", names[1])):
                asked: dict[str, object] = {"placement": {"tags": [tag]}}
                # A member of nats-server that lags behind on a busy machine loses the election.
                for _ in range(1 if system.is_ours else TRIES):
                    before = (await client.led("NEXT"))["leader"]
                    assert await client.code("STREAM.LEADER.STEPDOWN.NEXT", asked) == 0
                    if (after := (await client.led("NEXT", but=before))["leader"]) == leader:
                        break
                assert after == leader
            for refused in (["no"], ["eu", "no"], [""], ["!no"]):
                answer = await client.ask(
                    "STREAM.LEADER.STEPDOWN.NEXT", {"placement": {"tags": refused}}
                )
                error = answer["error"]
                assert error["err_code"] == NO_PEERS
                assert error["description"] == "no replacement peer connected"

    run_within(180, scenario)


def test_servers_report_their_tags(system: System) -> None:
    async def scenario() -> None:
        async with system.client(SYSTEM) as operator:
            inbox = operator.connection.new_inbox()
            heard = await operator.connection.subscribe(inbox)
            await operator.connection.publish("$SYS.REQ.SERVER.PING.VARZ", b"", reply=inbox)
            pages = [json.loads((await heard.next_msg(30)).data) for _ in range(3)]
            for page in pages:
                assert page["data"].get("tags") == page["server"].get("tags")
            told = sorted(page["server"].get("tags", []) for page in pages)
            assert told == [[], ["ssd"], ["ssd", "eu"]]
            asked = b'{"tags": ["ssd", " EU"]}'
            await operator.connection.publish("$SYS.REQ.SERVER.PING.VARZ", asked, reply=inbox)
            [one] = [json.loads((await heard.next_msg(30)).data)]
            assert one["server"]["tags"] == ["ssd", "eu"]
            with pytest.raises(TimeoutError):
                await heard.next_msg(0.5)

    run_within(180, scenario)


def test_only_users_of_the_system_account_ask_about_the_cluster(system: System) -> None:
    asked: tuple[tuple[str, object, int], ...] = (
        ("META.LEADER.STEPDOWN", {"x": 1}, JSON),
        ("META.LEADER.STEPDOWN", preferred("x"), NO_PEERS),
        ("SERVER.REMOVE", {}, BAD),
        ("SERVER.REMOVE", {"x": 1}, JSON),
        ("SERVER.REMOVE", {"peer": "x"}, NOT_MEMBER),
        ("SERVER.REMOVE", {"peer": "x", "peer_id": "x"}, NOT_MEMBER),
        ("SERVER.EVACUATE", {"peer_id": "x"}, NOT_MEMBER),
    )

    async def scenario() -> None:
        async with system.client() as client, system.client(SYSTEM, at=1) as operator:
            for subject, body, code in asked:
                assert await operator.code(subject, body) == code, (subject, body)
            # Silence: a request that is answered after it would have come later.
            inbox = client.connection.new_inbox()
            heard = await client.connection.subscribe(inbox)
            for subject, _, _ in asked:
                await client.connection.publish(f"$JS.API.{subject}", b"{}", reply=inbox)
            await client.connection.publish("$JS.API.INFO", b"", reply=inbox)
            first = json.loads((await heard.next_msg(30)).data)
            assert first["type"].endswith("account_info_response")

    run_within(180, scenario)


def test_jsz_shows_the_cluster_on_every_server(system: System) -> None:
    async def scenario() -> None:
        async with system.client() as client, system.client(SYSTEM) as operator:
            await client.stream("Z")
            if system.is_ours:
                await client.stays("Z")
            leader = (await client.led("Z"))["leader"]
            pages = await _pages(operator.connection, 3)
            metas = [page["meta_cluster"] for page in pages]
            assert len({meta["leader"] for meta in metas}) == 1
            for meta in metas:
                rest = ("cluster_size", "pending", "pending_requests", "pending_infos", "snapshot")
                first = ("name", "leader", "peer", "replicas")
                assert [name for name in meta if name != "quorum_needed"] == [*first, *rest]
                assert meta["cluster_size"] == 3
                assert all({*each} <= PEER for each in meta["replicas"])
            accounts = [account for page in pages for account in page.get("account_details", ())]
            streams = [each for account in accounts for each in account.get("stream_detail", ())]
            shown = [each["cluster"] for each in streams if each["name"] == "Z"]
            assert leader in {each.get("leader") for each in shown}

    run_within(180, scenario)


async def _pages(connection: Client, count: int) -> list[dict[str, Any]]:
    inbox = connection.new_inbox()
    heard = await connection.subscribe(inbox)
    subject = "$SYS.REQ.SERVER.PING.JSZ"
    await connection.publish(subject, b'{"streams": true, "consumer": true}', reply=inbox)
    return [json.loads((await heard.next_msg(30)).data)["data"] for _ in range(count)]


def test_another_server_leads_when_it_is_asked_for_and_no_publish_fails(system: System) -> None:
    async def scenario() -> None:
        async with (
            system.client() as client,
            system.client(at=1) as publisher,
            system.client(SYSTEM, at=2) as operator,
        ):
            await client.stream("P")
            if system.is_ours:
                await client.stays("P")
            events = await client.connection.subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.P")
            domain = await operator.connection.subscribe("$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED")
            await client.connection.flush()
            await operator.connection.flush()
            over = asyncio.Event()
            publishing = asyncio.create_task(_publish(publisher.connection, over))
            for request in ("STREAM.LEADER.STEPDOWN.P", "META.LEADER.STEPDOWN"):
                before = await client.led("P")
                wanted = before["replicas"][-1]["name"]
                is_meta = request.startswith("META")
                asking = operator if is_meta else client
                if is_meta:  # its leader is another one than the stream's
                    assert await asking.code(request) == 0
                    continue
                assert await asking.code(request, preferred(wanted)) == 0
                after = await client.led("P", but=before["leader"])
                assert after["leader"] == wanted
                assert after["leader_since"] > before["leader_since"]
            over.set()
            assert await publishing > 0 or not system.is_ours
            event = json.loads((await events.next_msg(30)).data)
            assert list(event) == ["type", "id", "timestamp", "stream", "leader", "replicas"]
            assert len(event["replicas"]) == 3
            elected = json.loads((await domain.next_msg(30)).data)
            assert list(elected) == ["type", "id", "timestamp", "leader", "replicas", "cluster"]
            assert elected["leader"] in {each["peer"] for each in elected["replicas"]}

    async def _publish(connection: Client, over: asyncio.Event) -> int:
        count = 0
        while not over.is_set():
            if system.is_ours:  # the reference refuses some while a stream has no leader
                await connection.jetstream().publish("P.x", b"", timeout=30)
                count += 1
            await asyncio.sleep(0)
            if not system.is_ours:
                await over.wait()
        return count

    for attempt in range(TRIES):
        try:
            run_within(180, scenario)
        except ServiceUnavailableError:  # where who takes over stood still for two seconds
            if attempt + 1 == TRIES:
                raise
        else:
            return


def test_a_node_that_is_gone_is_shown_until_it_is_removed(system: System) -> None:
    if not system.is_ours:
        return

    async def scenario() -> None:
        connection = await asyncpg.connect(system.dsn)
        try:
            await connection.execute(
                "insert into jetgate_store.node (node, session_pid, started, seen, nats, http,"
                " server_id, version, route_host, route_port, links) select 'gone', 0, seen, seen,"
                " '', '', 'gone', '', '127.0.0.1', 1, '{}'"
                " from (select now() - interval '1 hour' as seen) as x"
            )
        finally:
            await connection.close()
        async with system.client(SYSTEM) as operator:

            async def found() -> dict[str, Any] | None:
                pages = await _pages(operator.connection, 3)
                shown = [meta for page in pages for meta in page["meta_cluster"]["replicas"]]
                gone = [each for each in shown if each["name"] == "gone"]
                return gone[0] if len(gone) == 3 else None

            shown = await observed(found, within=60)
            assert (shown["current"], shown["offline"]) == (False, True)
            assert await operator.code("SERVER.REMOVE", {"peer": "gone"}) == 0

            async def is_removed() -> bool:  # a heartbeat under way may still tell of it
                return await operator.code("SERVER.REMOVE", {"peer": "gone"}) == NOT_MEMBER

            await observed(is_removed, within=60)

    run_within(180, scenario)
