"""Streams that depend on each other, each led by another node: what leads them apart changes
nothing of what clients see.
"""

# Subject: several nodes

import asyncio
import contextlib
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription

from core.storage.postgres.locks import LEASE_GROUPS
from tests.support.eventually import observed
from tests.support.node_clients import PATIENT, At, run
from tests.support.nodes import Nodes, numbers
from tests.support.pg import PostgresServer
from tests.support.transactions import App

FLAGS = ("--user", "app", "--pass", "a", "--system-user", "sys", "--system-pass", "s")
AUDIT = "$JS.EVENT.ADVISORY.API"
NO_PEERS = 10005
WHO = {"user": "app", "password": "a"}


@pytest.fixture(scope="module")
def nodes(durable: PostgresServer) -> Iterator[Nodes]:
    with Nodes(durable.fresh_database(), 3, *FLAGS) as nodes:
        yield nodes


async def led_together(at: At, name: str, by: str) -> None:
    assert [await at.leader(each) for each in (name, f"JG_STAGE_{name}")] == [by, by]


def test_a_stream_and_the_one_it_is_staged_in_have_one_leader_wherever_they_go(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("TXN")
        app = App(two.client, "TXN")
        assert "error" not in await app.open()
        await led_together(three, "TXN", one.name)
        first = await app.stage("a", [("TXN.1", b"1"), ("TXN.2", b"2")])
        await two.move("TXN", three.name)
        await led_together(one, "TXN", three.name)
        answer = await app.commit(1, first)
        assert answer["state"] == "done"
        second = await app.stage("b", [("TXN.3", b"3")])
        assert (await app.commit(2, second))["promoted"] == 1
        await one.holds("TXN", 3)
        await one.holds("JG_STAGE_TXN", 0)  # what is stored is cleared there

        # One that takes the name of a deleted stream is led where the stage still is.
        await two.done("STREAM.DELETE.TXN")
        await one.stream("TXN")
        await led_together(two, "TXN", three.name)

    run(nodes, scenario, **WHO)


def dead_letters_of(name: str, to: str, **config: object) -> dict[str, object]:
    """What creates the consumer C of a stream, with dead letters."""
    metadata = {"jetgate.dead_letter": to}
    asked = {"durable_name": "C", "ack_policy": "explicit", "metadata": metadata, **config}
    return {"stream_name": name, "config": asked}


async def terminate(at: At, name: str, count: int) -> None:
    """Terminate so many messages of the consumer C."""
    reader = await at.js.pull_subscribe_bind("C", name)
    for _ in range(count):
        for message in await reader.fetch(1, timeout=PATIENT):
            await at.client.request(message.reply, b"+TERM", timeout=PATIENT)


async def dead_letters(at: At, name: str) -> list[str]:
    """The bodies of the letters, oldest first."""
    last = (await at.info(name))["state"]["last_seq"]
    return [((await at.js.get_msg(name, seq)).data or b"").decode() for seq in range(1, last + 1)]


def test_dead_letters_go_once_each_to_the_leader_of_their_stream(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("JOBS", retention="workqueue")
        await two.stream("DEAD")
        await three.done("CONSUMER.CREATE.JOBS.C", dead_letters_of("JOBS", "DEAD"))
        for number in range(5):
            await three.js.publish("JOBS.a", b"%d" % number)
        await terminate(three, "JOBS", 1)
        await one.holds("DEAD", 1)
        await one.move("DEAD", three.name)
        await terminate(two, "JOBS", 2)
        await one.holds("DEAD", 3)
        await one.move("JOBS", two.name)
        await terminate(one, "JOBS", 2)
        await two.holds("DEAD", 5)
        assert await dead_letters(three, "DEAD") == ["0", "1", "2", "3", "4"]
        await two.holds("JOBS", 0)

    run(nodes, scenario, **WHO)


def test_dead_letters_wait_for_their_stream_and_lack_what_it_does_not_take(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("LATE", retention="workqueue")
        await three.done("CONSUMER.CREATE.LATE.C", dead_letters_of("LATE", "SMALL"))
        for body in (b"small", b"large" * 200, b"last"):
            await three.js.publish("LATE.a", body)
        await terminate(three, "LATE", 3)
        await two.stream("SMALL", max_msg_size=700)
        await one.holds("SMALL", 3)
        assert await dead_letters(three, "SMALL") == ["small", "", "last"]

    run(nodes, scenario, **WHO)


def test_dead_letters_are_stored_once_where_their_stream_moves_again_and_again(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("MANY", retention="workqueue")
        await two.stream("MANYDEAD")
        await three.done("CONSUMER.CREATE.MANY.C", dead_letters_of("MANY", "MANYDEAD"))
        for number in range(60):
            await three.js.publish("MANY.a", b"%d" % number)

        async def move() -> None:
            for to in (three, one, two, three):
                await one.move("MANYDEAD", to.name)

        await asyncio.gather(move(), terminate(two, "MANY", 60))
        await one.holds("MANYDEAD", 60)
        assert sorted(map(int, await dead_letters(three, "MANYDEAD"))) == list(range(60))
        await one.holds("MANY", 0)

    run(nodes, scenario, **WHO)


def test_a_consumer_steps_down_and_reports_its_leader_through_any_node(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("CON", num_replicas=3)
        config = {"durable_name": "C", "ack_policy": "explicit"}
        await two.done("CONSUMER.CREATE.CON.C", {"stream_name": "CON", "config": config})
        found = [(await at.done("CONSUMER.INFO.CON.C"))["cluster"] for at in (one, two, three)]
        assert {each["leader"] for each in found} == {one.name}
        assert len({each["leader_since"] for each in found}) == 1

        async def is_led_by_two() -> bool:
            now = (await one.done("CONSUMER.INFO.CON.C"))["cluster"]
            if now["leader"] == two.name:
                return bool(now["leader_since"] > found[0]["leader_since"])
            asked = {"placement": {"preferred": two.name}}
            await three.done("CONSUMER.LEADER.STEPDOWN.CON.C", asked)
            return False

        await observed(is_led_by_two, within=60)
        assert await three.leader("CON") == two.name

    run(nodes, scenario, **WHO)


async def led_by(at: At, name: str, leader: At) -> bool:
    return await at.leader(name) == leader.name


def groups_of(at: At) -> float:
    """How many lease groups a node leads."""
    return numbers(at.node)["jetgate_lease_groups"]


@pytest.mark.thorough
def test_a_node_that_is_evacuated_leads_nothing_until_nodes_come_or_go(
    durable: PostgresServer,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await two.stream("EVA")
        # Each node is asked of: one of them leads the stream directory, and the others send it on.
        host, port = one.node.address
        operator = await nats.connect(f"nats://{host}:{port}", user="sys", password="s")
        try:
            asked = json.dumps({"peer": two.name}).encode()
            answer = await operator.request("$JS.API.SERVER.EVACUATE", asked, timeout=PATIENT)
            assert json.loads(answer.data).get("success"), answer.data
        finally:
            await operator.close()
        await observed(lambda: not groups_of(two), within=60)
        await observed(lambda: groups_of(one) + groups_of(three) == LEASE_GROUPS, within=60)
        assert await two.leader("EVA") != two.name
        # What steps down for anybody goes to the third, and for the evacuated node it does not.
        await one.stream("NEXT")
        for leaving, taking in ((one, three), (three, one)):
            assert await one.leader("NEXT") == leaving.name
            preferred = {"placement": {"preferred": two.name}}
            refused = await two.ask("$JS.API.STREAM.LEADER.STEPDOWN.NEXT", preferred)
            assert refused["error"]["err_code"] == NO_PEERS
            await two.done("STREAM.LEADER.STEPDOWN.NEXT")
            await observed(partial(led_by, two, "NEXT", taking), within=60)
        assert not groups_of(two)

        three.node.kill()
        await observed(lambda: groups_of(one) and groups_of(two), within=60)

    with Nodes(durable.fresh_database(), 3, *FLAGS) as nodes:
        run(nodes, scenario, **WHO)


async def audited(audits: Subscription, requests: set[str]) -> dict[str, list[Any]]:
    """Read audits until each of some requests has one; return all of these, without times."""
    found: dict[str, list[Any]] = {request: [] for request in requests}
    while not all(found.values()):
        audit = json.loads((await audits.next_msg(PATIENT)).data)
        audit["client"].pop("rtt", None)
        found.setdefault(audit.get("request", ""), []).append(audit)
    return found


def test_the_audit_of_a_request_names_its_client_whichever_node_serves_it(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("AUD")
        audits = await three.client.subscribe(AUDIT)

        async def is_heard() -> bool:
            """Whether the node that is asked knows of the listener."""
            await two.info("AUD")
            with contextlib.suppress(TimeoutError):
                audit = json.loads((await audits.next_msg(1)).data)
                return bool(audit["client"]["server"] == two.name)
            return False

        await observed(is_heard, within=60)
        await one.keep("AUD")
        forged = {"Nats-Request-Info": '{"name":"forged","server":"forged"}'}
        subject = "$JS.API.STREAM.INFO.AUD"
        asked: list[tuple[str, dict[str, str] | None]] = [
            ('{"offset":1}', None),
            ('{"offset":2}' + " " * 300_000, {"a": "b"}),
            ('{"offset":3}', forged),
        ]
        for body, headers in asked:
            await two.client.request(subject, body.encode(), timeout=PATIENT, headers=headers)
        # What the node serves itself comes behind whatever else it would publish.
        await two.ask("$JS.API.STREAM.NAMES", '{"offset":4}')

        bodies = {body for body, _ in asked}
        found = await audited(audits, {'{"offset":4}', *bodies})

        (own,) = found['{"offset":4}']
        assert own["client"]["server"] == own["server"] == two.name
        for body in bodies:
            (audit,) = found[body]
            assert (audit["server"], audit["subject"]) == (one.name, subject)
            assert audit["client"] == own["client"]

    run(nodes, scenario, **WHO)


def test_the_audit_of_a_request_about_the_cluster_names_its_client_too(nodes: Nodes) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        async with contextlib.AsyncExitStack() as stack:
            operators = list[Client]()
            for at in (one, two, three):
                address = "nats://{}:{}".format(*at.node.address)
                operators.append(await nats.connect(address, user="sys", password="s"))
                stack.push_async_callback(operators[-1].close)
            audits = await operators[0].subscribe(AUDIT)

            async def heard(operator: Client, name: str) -> bool:
                await operator.request("$JS.API.SERVER.REMOVE", b'{"peer":"x"}', timeout=PATIENT)
                with contextlib.suppress(TimeoutError):
                    audit = json.loads((await audits.next_msg(1)).data)
                    found.append(audit)
                    return bool(audit["client"]["server"] == name)
                return False

            found = list[Any]()
            for operator, at in zip(operators, (one, two, three), strict=True):
                await observed(partial(heard, operator, at.name), within=60)
            assert {audit["client"]["user"] for audit in found} == {"sys"}
            assert {audit["client"]["acc"] for audit in found} == {"$SYS"}
            assert len({audit["server"] for audit in found}) == 1

    run(nodes, scenario, **WHO)
