"""Past bugs of clusters: what came back, went, or was answered wrongly when nodes came and went.

| seen in other servers (nats-server numbers) | here |
|---|---|
| #7025, #7668: a deleted stream is revived by a node that is back | `test_a_deleted_stream_...` |
| #6888, #7556, #4410: streams deleted as orphans by a node with damaged metadata | \
`test_a_node_that_has_lost_its_directory_...`, `test_a_stream_that_cannot_be_read_...` |
| #7210, #6502: parallel creates of a stream have two winners | `test_of_parallel_creates_...`; \
more than there is room for: `e2e/test_cluster_database.py` |
| #8054: info right after a create says 404 | `test_what_was_created_through_one_node_...` |
| #8382, #8464: illegal updates (storage, replicas) are accepted | `test_an_illegal_update_...`, \
`wire/data/stream/update_storage.txt`, `create_replicas.txt` |
| #7545: a node is removed, another is cut off, a third killed: messages are lost | \
`test_nothing_is_lost_when_...`; \
really cut off: `e2e/test_unreachable_leader.py` |
| a Direct Get of a node that stepped down shows what was before | `test_a_deleted_stream_...` |
| a leader that was stopped (SIGSTOP) answers a Direct Get before it knows its successor | \
`test_a_stopped_leader_...` |
"""

# Subject: several nodes

import json
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.crash.point_world import UNAVAILABLE
from tests.regressions.desk import code
from tests.support.eventually import eventually
from tests.support.headers import block
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes, end_session, leader_of
from tests.support.pg import PostgresServer
from tests.support.sql import on
from tests.support.wire import Closed, Frame, Silence, Wire


@pytest.fixture(scope="module")
def dsn(durable: PostgresServer) -> str:
    return durable.fresh_database()


@pytest.fixture(scope="module")
def nodes(dsn: str) -> Iterator[Nodes]:
    with Nodes(dsn, 3) as nodes:
        yield nodes


@contextmanager
def talk(node: JetgateServer) -> Iterator[Wire]:
    with Wire(node.address, timeout=60) as wire:
        wire.hello()
        yield wire


def api(node: JetgateServer, subject: str, body: Any = None) -> Any:
    """Ask for something until it is not refused for want of a leader."""

    def answered() -> Any:
        with talk(node) as wire:
            answer = wire.api(subject, body)
        assert answer.get("error", {}).get("err_code") != UNAVAILABLE
        return answer

    return eventually(answered, within=60)


def store(node: JetgateServer, subject: str, payload: bytes) -> int:
    """Publish until it is acknowledged; its sequence.

    What a leader was given that is deposed is never answered, as on the reference server; what a
    busy one answers too late is stored once, by its id.
    """
    headers = block(Nats_Msg_Id=f"{subject} {payload.decode()}")

    def stored() -> int:
        try:
            with talk(node) as wire:
                frame = wire.request(subject, payload, headers, timeout=2)
        except (Silence, Closed):
            return 0
        assert frame.payload, "no responders"
        return int(frame.json().get("seq", 0))

    return eventually(stored, within=60)


def newest(node: JetgateServer, stream: str, subject: str) -> bytes:
    """What a Direct Get has as the last message of a subject."""
    with talk(node) as wire:
        frame = wire.request(
            f"$JS.API.DIRECT.GET.{stream}", json.dumps({"last_by_subj": subject}).encode()
        )
    return frame.payload


def depose(
    dsn: str, leader: JetgateServer, peers: Sequence[JetgateServer], of: str
) -> JetgateServer:
    """Stop the leader of a stream; the node that leads it in its place."""
    assert leader.process is not None
    leader.process.send_signal(signal.SIGSTOP)
    end_session(dsn, leader)
    return leader_of(peers, of)


def peers_of(node: JetgateServer, nodes: Nodes) -> list[JetgateServer]:
    """All nodes but one."""
    return [each for each in nodes.all if each is not node]


def test_a_deleted_stream_is_not_revived_by_a_node_that_comes_back(dsn: str, nodes: Nodes) -> None:
    for name in ("GONE", "KEPT"):
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
        assert "error" not in api(nodes.all[0], f"STREAM.CREATE.{name}", config)
        assert store(nodes.all[0], f"{name}.x", b"old") == 1
    former = nodes.leader_of("GONE")

    heir = depose(dsn, former, peers_of(former, nodes), "GONE")
    assert api(heir, "STREAM.DELETE.GONE")["success"]
    assert store(heir, "KEPT.x", b"new") == 2
    assert former.process is not None
    former.process.send_signal(signal.SIGCONT)
    nodes.settled()

    for node in nodes.all:
        assert code(api(node, "STREAM.INFO.GONE")) == 10059
        assert api(node, "STREAM.NAMES")["streams"] == ["KEPT"]
        with talk(node) as wire:
            assert b" 503" in wire.request("GONE.x", b"nobody takes it").headers
        assert newest(node, "KEPT", "KEPT.x") == b"new"
    former.restart()
    nodes.settled()
    config = {"name": "GONE", "subjects": ["GONE.>"]}
    assert api(former, "STREAM.CREATE.GONE", config)["did_create"]
    assert store(former, "GONE.x", b"first") == 1


def test_a_stopped_leader_answers_no_direct_get_with_older_messages(dsn: str, nodes: Nodes) -> None:
    config = {"name": "STALE", "subjects": ["stale"], "allow_direct": True}
    assert "error" not in api(nodes.all[0], "STREAM.CREATE.STALE", config)
    assert store(nodes.all[0], "stale", b"old") == 1
    former = nodes.leader_of("STALE")
    with talk(former) as reader:
        reader.send(b"SUB answers 1\r\n")
        reader.flush()
        heir = depose(dsn, former, peers_of(former, nodes), "STALE")
        assert store(heir, "stale", b"new") == 2
        for _ in range(20):
            body = b'{"last_by_subj":"stale"}'
            reader.publish("$JS.API.DIRECT.GET.STALE", body, reply=b"answers")
            reader.publish("$JS.API.DIRECT.GET.STALE.stale", b"", reply=b"answers")
        assert former.process is not None
        former.process.send_signal(signal.SIGCONT)

        # Some requests may stay unanswered: the node that they waited in does not lead. A node that
        # stood still for seconds closes its connections.
        answers: list[Frame] = []
        with suppress(Closed):
            reader.send(b"PING\r\n")
            while (frame := reader.frame()).line != b"PONG":
                answers.append(frame)
        assert {each.payload for each in answers if b" 503" not in each.headers} <= {b"new"}
    nodes.settled()
    assert newest(former, "STALE", "stale") == b"new"


def test_a_node_that_has_lost_its_directory_deletes_nothing(nodes: Nodes) -> None:
    config = {"name": "DIR", "subjects": ["dir"]}
    assert "error" not in api(nodes.all[0], "STREAM.CREATE.DIR", config)
    assert store(nodes.all[0], "dir", b"kept") == 1
    leader = nodes.leader_of("DIR")
    leader.kill()
    shutil.rmtree(leader.data)
    leader.data.mkdir()
    leader.start()
    nodes.settled()

    for node in nodes.all:
        assert api(node, "STREAM.INFO.DIR")["state"]["messages"] == 1


def test_a_stream_that_cannot_be_read_is_not_taken_for_deleted(durable: PostgresServer) -> None:
    dsn = durable.fresh_database()
    node = JetgateServer(dsn=dsn)
    find = "select config::text from jetgate_store.stream where name = 'A'"
    write = "update jetgate_store.stream set config = '{}' where name = 'A'"
    count = "select (select count(*) from jetgate_store.stream where not dropped),"
    count += " (select count(*) from jetgate_store.message)"
    try:
        node.start()
        for name in ("A", "B"):
            api(node, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
            assert store(node, name, b"kept") == 1
        node.kill()
        [(config,)] = on(dsn, find)
        on(dsn, write.format("[]"), "select")

        with suppress(RuntimeError):  # it may have ended before it was asked for its ports
            node.start()
        assert node.process is not None
        assert node.process.wait(60) == 1
        node.process = None
        assert "the configuration of stream A cannot be read" in node.log()
        assert on(dsn, count) == [(2, 2)]

        on(dsn, write.format(config), "select")
        node.start()
        assert api(node, "STREAM.INFO.A")["state"]["messages"] == 1
        assert store(node, "A", b"more") == 2
    finally:
        node.stop()


@pytest.mark.parametrize("same", [True, False], ids=["same", "different"])
def test_of_parallel_creates_through_all_nodes_one_wins(nodes: Nodes, same: bool) -> None:
    with ThreadPoolExecutor(3) as pool:
        for attempt in range(5):
            name = f"RACE-{same}-{attempt}"

            def create(number: int, name: str = name) -> Any:
                subject = name if same else f"{name}.{number}"
                config = {"name": name, "subjects": [subject]}
                return api(nodes.all[number], f"STREAM.CREATE.{name}", config)

            answers = list(pool.map(create, range(3)))
            found = api(nodes.all[attempt % 3], f"STREAM.INFO.{name}")
            refused = [answer for answer in answers if "error" in answer]
            won = [answer for answer in answers if "error" not in answer]
            if same:  # all are told of the one stream
                assert not refused
            else:
                assert [code(answer) for answer in refused] == [10058, 10058]
            for answer in won:
                assert answer["config"] == found["config"]
                assert answer["created"] == found["created"]


def test_streams_created_through_one_node_are_known_to_all_at_once(nodes: Nodes) -> None:
    _, (one, other) = nodes.roles
    for attempt in range(10):
        name = f"NEW-{attempt}"
        assert api(one, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})["did_create"]
        assert "error" not in api(other, f"STREAM.INFO.{name}")
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        assert "error" not in api(other, f"CONSUMER.CREATE.{name}.C", body)
        assert "error" not in api(one, f"CONSUMER.INFO.{name}.C")


def test_an_illegal_update_through_any_node_changes_nothing(nodes: Nodes) -> None:
    config = {"name": "LEGAL", "subjects": ["legal"], "storage": "file"}
    made = api(nodes.leader, "STREAM.CREATE.LEGAL", config)["config"]
    for node in nodes.all:
        for change in ({"storage": "memory"}, {"num_replicas": 6}, {"num_replicas": -1}):
            refused = api(node, "STREAM.UPDATE.LEGAL", {**config, **change})
            assert "error" in refused, change
            assert api(node, "STREAM.INFO.LEGAL")["config"] == made


def test_nothing_is_lost_when_nodes_leave_stand_still_and_are_killed(
    dsn: str, nodes: Nodes
) -> None:
    config = {"name": "ALL", "subjects": ["all"], "allow_direct": True}
    assert "error" not in api(nodes.all[0], "STREAM.CREATE.ALL", config)
    first = nodes.leader_of("ALL")
    second, third = peers_of(first, nodes)
    acked = {store(second, "all", b"%d" % n): b"%d" % n for n in range(5)}

    assert first.process is not None
    first.process.send_signal(signal.SIGTERM)
    acked |= {store(third, "all", b"%d" % n): b"%d" % n for n in range(5, 10)}
    assert first.process.wait(60) == 0
    first.process = None
    leader = leader_of([second, third], "ALL")
    other = third if leader is second else second
    assert depose(dsn, leader, [other], "ALL") is other
    acked |= {store(other, "all", b"%d" % n): b"%d" % n for n in range(10, 15)}
    other.kill()
    assert leader.process is not None
    leader.process.send_signal(signal.SIGCONT)
    acked |= {store(leader, "all", b"%d" % n): b"%d" % n for n in range(15, 20)}
    for node in (first, other):
        node.start()
    nodes.settled()

    for node in nodes.all:
        with talk(node) as wire:
            for seq, payload in acked.items():
                body = json.dumps({"seq": seq}).encode()
                assert wire.request("$JS.API.DIRECT.GET.ALL", body).payload == payload
        assert api(node, "STREAM.INFO.ALL")["state"]["messages"] >= 20
