"""Past bugs of servers like this one: what a restart changed that it should not.

Each body prepares something up to its `yield` and looks at it afterwards. All of a server are
prepared together, then it is restarted twice: jetgate by kill -9, the reference in good order.
"""

# Subject: deduplication, crashes

import json
import os
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.regressions.desk import SECOND, Desk, Server, code, seqs
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer, _command, _descendants
from tests.support.natsserver import NatsServer
from tests.support.wire import Silence

Story = Callable[[Desk], Generator[None]]
_stories: dict[str, Story] = {}
_SOURCING = 60.0  # seconds; the reference waits long before it asks an origin again


class Restarted:
    """A server that was restarted between the two halves of every story."""

    def __init__(self, server: Server) -> None:
        self.desk = Desk(server)
        self.halves = {name: story(self.desk) for name, story in _stories.items()}
        self.failures: dict[str, BaseException] = {}
        for name, half in self.halves.items():
            try:
                next(half)
            except (AssertionError, Silence) as failure:
                self.failures[name] = failure
        for _ in range(2):
            server.restart()
        self.desk.wire.close()
        self.desk.wire = Desk(server).wire

    def go_on(self, name: str) -> None:
        """Play the second half."""
        if name in self.failures:
            raise self.failures[name]
        assert next(self.halves[name], "the end") == "the end"


@pytest.fixture(scope="module", params=["jetgate", "nats-server"])
def restarted(request: pytest.FixtureRequest) -> Iterator[Restarted]:
    started: Server = JetgateServer(in_memory=True) if request.param == "jetgate" else NatsServer()
    with started as server:
        found = Restarted(server)
        yield found
        found.desk.wire.close()


def across_restarts(story: Story) -> Callable[[Restarted], None]:
    """Make a test of a story."""
    _stories[story.__name__] = story

    def test(restarted: Restarted) -> None:
        restarted.go_on(story.__name__)

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@across_restarts
def test_an_emptied_stream_keeps_its_sequences(desk: Desk) -> Generator[None]:
    """After two restarts an empty stream counted from 1 again."""
    desk.stream("EMPTY")
    desk.stream("AGED", max_age=SECOND // 5)
    for name in ("EMPTY", "AGED"):
        desk.fill(name, 5)
    desk.ok("STREAM.PURGE.EMPTY")
    eventually(lambda: desk.state("AGED")["messages"] == 0)
    yield
    for name in ("EMPTY", "AGED"):
        state = desk.state(name)
        assert (state["messages"], state["first_seq"], state["last_seq"]) == (0, 6, 5)
        assert desk.publish(f"{name}.x", b"")["seq"] == 6


@across_restarts
def test_a_work_queue_does_not_start_over(desk: Desk) -> Generator[None]:
    """A work queue without jobs gave old numbers to new ones, which nobody got."""
    desk.stream("QUEUE", retention="workqueue")
    desk.consumer("QUEUE")
    desk.fill("QUEUE", 4)
    for frame in desk.pull("QUEUE", 4):
        desk.ack(frame)
    eventually(lambda: desk.state("QUEUE")["messages"] == 0)
    yield
    assert desk.publish("QUEUE.x", b"new")["seq"] == 5
    assert desk.bodies("QUEUE", 1) == [b"new"]


@across_restarts
def test_the_first_sequence_is_kept(desk: Desk) -> Generator[None]:
    """A stream that began at a later sequence, or was purged up to one, began at 1."""
    desk.stream("FIRST", first_seq=1000)
    desk.fill("FIRST", 3)
    desk.ok("STREAM.PURGE.FIRST", {"seq": 1001})
    desk.stream("UNUSED", first_seq=500)
    yield
    state = desk.state("FIRST")
    assert (state["first_seq"], state["last_seq"], state["messages"]) == (1001, 1002, 2)
    assert desk.publish("UNUSED.x", b"")["seq"] == 500


@across_restarts
def test_a_creation_time_is_kept(desk: Desk) -> Generator[None]:
    """Streams and consumers were as old as their server."""
    stream = desk.stream("BORN")["created"]
    consumer = desk.consumer("BORN")["created"]
    yield
    assert desk.ok("STREAM.INFO.BORN")["created"] == stream
    assert desk.stream("BORN")["created"] == stream
    assert desk.info("BORN")["created"] == consumer


@across_restarts
def test_a_full_stream_is_still_full(desk: Desk) -> Generator[None]:
    """A stream that refuses when it is full took one message more after a start."""
    desk.stream("FULL", max_msgs=3, discard="new")
    desk.stream("EACH", max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)
    desk.fill("FULL", 3)
    desk.fill("EACH", 3, subjects=3)
    yield
    assert code(desk.publish("FULL.x", b"")) == 10077
    assert [code(desk.publish(f"EACH.{name}", b"")) for name in "013"] == [10077, 10077, 0]
    desk.ok("STREAM.MSG.DELETE.FULL", {"seq": 2})
    assert [code(desk.publish("FULL.x", b"")) for _ in range(2)] == [0, 10077]


@across_restarts
def test_an_id_is_still_known(desk: Desk) -> Generator[None]:
    """The publisher who tried again after a restart had its message stored twice."""
    desk.stream("IDS")
    for i in range(3):
        desk.publish("IDS.x", b"", Nats_Msg_Id=f"id{i}")
    desk.ok("STREAM.MSG.DELETE.IDS", {"seq": 1})
    yield
    for i in (1, 2):
        again = desk.publish("IDS.x", b"", Nats_Msg_Id=f"id{i}")
        assert (again["duplicate"], again["seq"]) == (True, i + 1)
    assert desk.state("IDS")["messages"] == 2


@across_restarts
def test_a_source_copies_nothing_twice(desk: Desk) -> Generator[None]:
    """A stream that copies another began again at its start."""
    desk.stream("ORIGIN")
    desk.fill("ORIGIN", 20)
    desk.ok("STREAM.CREATE.COPY", {"name": "COPY", "sources": [{"name": "ORIGIN"}]})
    desk.ok("STREAM.CREATE.MIRROR", {"name": "MIRROR", "mirror": {"name": "ORIGIN"}})
    copies = ("COPY", "MIRROR")
    eventually(lambda: all(desk.state(c)["messages"] == 20 for c in copies), within=_SOURCING)
    yield
    desk.publish("ORIGIN.x", b"one more")
    eventually(lambda: all(desk.state(c)["messages"] >= 21 for c in copies), within=_SOURCING)
    assert [desk.state(c)["last_seq"] for c in copies] == [21, 21]


@across_restarts
def test_deleted_messages_stay_deleted(desk: Desk) -> Generator[None]:
    """Deleted and purged messages were back after a start."""
    desk.stream("GONE", allow_rollup_hdrs=True)
    desk.fill("GONE", 12, subjects=3)
    for seq in (2, 6, 12):
        desk.ok("STREAM.MSG.DELETE.GONE", {"seq": seq})
    desk.ok("STREAM.PURGE.GONE", {"filter": "GONE.0", "keep": 1})
    desk.publish("GONE.1", b"rolled up", Nats_Rollup="sub")
    before = desk.state("GONE")
    yield
    after = desk.state("GONE")
    for name in ("messages", "bytes", "first_seq", "last_seq", "subjects", "deleted"):
        assert after.get(name) == before.get(name), name
    for seq in (2, 6, 12):
        assert code(desk.api("STREAM.MSG.GET.GONE", {"seq": seq})) == 10037


@across_restarts
def test_times_to_live_go_on(desk: Desk) -> Generator[None]:
    """Messages outlived their time after a start, or went before it."""
    desk.stream("TTL", allow_msg_ttl=True)
    for ttl in ("1s", "1h", "never"):
        assert "error" not in desk.publish(f"TTL.{ttl}", b"", Nats_TTL=ttl)
    yield
    eventually(lambda: "TTL.1s" not in desk.state("TTL")["subjects"])
    assert desk.state("TTL")["subjects"] == {"TTL.1h": 1, "TTL.never": 1}


@across_restarts
def test_a_confirmed_ack_is_final(desk: Desk) -> Generator[None]:
    """Messages whose acknowledgement was confirmed came again after a start."""
    desk.stream("ACKED")
    desk.fill("ACKED", 4)
    desk.consumer("ACKED", ack_wait=SECOND // 2)
    frames = desk.pull("ACKED", 4)
    for frame in (frames[0], frames[2]):
        desk.ack(frame)
    yield
    again = desk.pull("ACKED", 2)
    assert sorted(seqs(again)) == [2, 4]
    for frame in again:
        desk.ack(frame)
    assert desk.numbers("ACKED") == (4, 4, 0, 0, 0)


@across_restarts
def test_reading_goes_on_where_it_was(desk: Desk) -> Generator[None]:
    """After a change of the leader messages were skipped, or came in another order."""
    desk.stream("READ")
    desk.fill("READ", 50, subjects=5)
    desk.consumer("READ")
    desk.consumer("READ", "f", filter_subject="READ.3")
    for name, count in (("c", 20), ("f", 4)):
        for frame in desk.pull("READ", count, name):
            desk.ack(frame)
    yield
    assert seqs(desk.pull("READ", 30)) == list(range(21, 51))
    assert seqs(desk.pull("READ", 6, "f")) == [24, 29, 34, 39, 44, 49]


@across_restarts
def test_an_open_flow_control_request_does_not_stall_the_next_leader(
    desk: Desk,
) -> Generator[None]:
    """What a receiver never answered before the restart held up the deliveries after it."""
    desk.stream("FLOW")
    for _ in range(60):
        desk.publish("FLOW.x", bytes(20_000))
    push: dict[str, Any] = {"deliver_subject": "to.flow", "idle_heartbeat": SECOND}
    desk.consumer("FLOW", ack_policy="none", flow_control=True, **push)
    desk.wire.send(b"SUB to.flow 8\r\n")
    while b"FlowControl" not in desk.wire.frame().headers:
        pass
    desk.wire.send(b"UNSUB 8\r\n")
    desk.wire.flush()
    yield
    desk.publish("FLOW.x", b"the end")
    desk.wire.send(b"SUB to.flow 8\r\n")
    for _ in range(100):
        frame = desk.wire.frame()
        if b"FlowControl" in frame.headers:
            desk.wire.publish(frame.reply.decode())
        if frame.payload == b"the end":
            break
    assert frame.payload == b"the end"
    assert seqs([frame]) == [61]
    desk.wire.send(b"UNSUB 8\r\n")
    desk.wire.flush()


@across_restarts
def test_no_consumer_is_lost(desk: Desk) -> Generator[None]:
    """Consumers were deleted by the shutdown, or forgotten."""
    desk.stream("CONS")
    desk.consumer("CONS", "durable")
    desk.consumer("CONS", "paused", pause_until="2099-01-01T00:00:00Z")
    unnamed = {"ack_policy": "explicit", "inactive_threshold": 600 * SECOND}
    request = {"stream_name": "CONS", "config": unnamed}
    ephemeral = desk.ok("CONSUMER.CREATE.CONS", request)["name"]
    yield
    names = {"durable", "paused", ephemeral}
    assert set(desk.ok("CONSUMER.NAMES.CONS")["consumers"]) == names
    assert desk.info("CONS", "paused")["paused"]


@across_restarts
def test_a_deleted_stream_does_not_come_back(desk: Desk) -> Generator[None]:
    """A stream that was deleted was there again after a start, messages and all."""
    desk.stream("DEAD")
    desk.fill("DEAD", 5)
    desk.consumer("DEAD")
    desk.ok("STREAM.DELETE.DEAD")
    desk.stream("CONSDEAD")
    desk.consumer("CONSDEAD")
    desk.ok("CONSUMER.DELETE.CONSDEAD.c")
    yield
    assert code(desk.api("STREAM.INFO.DEAD")) == 10059
    assert code(desk.api("CONSUMER.INFO.CONSDEAD.c")) == 10014
    desk.stream("DEAD")
    assert desk.publish("DEAD.x", b"")["seq"] == 1


# -- jetgate alone: crashes at the worst moment ---------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[JetgateServer]:
    with JetgateServer(in_memory=True) as server:
        yield server


def test_a_stalled_process_that_is_killed_has_lost_nothing(node: JetgateServer) -> None:
    """A process that was stopped for longer than its timers wait went on and lost data."""
    with Desk(node) as desk:
        desk.stream("STOP")
        desk.fill("STOP", 50)
        os.kill(node.pid, signal.SIGSTOP)
        desk.wire.publish("STOP.held", b"held", reply=b"in.held")
        with pytest.raises(Silence):
            desk.wire.frame(3.0)
        os.kill(node.pid, signal.SIGCONT)
        answer = desk.wire.frame()
        assert answer.subject == b"in.held"
        stored = 50 + ("error" not in answer.json())
        eventually(lambda: "error" not in desk.publish("STOP.probe", b""), within=60)
        stored = desk.state("STOP")["messages"]
    node.restart()
    with Desk(node) as desk:
        state = desk.state("STOP")
        assert (state["messages"], state["last_seq"]) == (stored, stored)


def test_a_publish_that_was_never_committed_is_stored_once_when_it_comes_again(
    node: JetgateServer,
) -> None:
    """The id of a message that was lost in the crash was remembered: the retry was refused."""
    with Desk(node) as desk:
        desk.stream("RETRY")
        desk.publish("RETRY.x", b"first", Nats_Msg_Id="first")
        database = [pid for pid in _descendants(node.pid) if "postgres" in _command(pid)]
        for pid in database:
            os.kill(pid, signal.SIGSTOP)
        block = b"NATS/1.0\r\nNats-Msg-Id: second\r\n\r\n"
        desk.wire.publish("RETRY.x", b"second", reply=b"in.r", headers=block)
        assert desk.wire.flush() == []
        node.kill()
        for pid in database:
            os.kill(pid, signal.SIGCONT)
    node.start()
    with Desk(node) as desk:
        for _ in range(2):
            again = desk.publish("RETRY.x", b"second", Nats_Msg_Id="second")
            assert again["seq"] == 2
        assert desk.state("RETRY")["messages"] == 2


@pytest.mark.parametrize("body", [{"seq": 2001}, {"filter": "PART.1", "keep": 10}])
def test_a_purge_that_is_killed_happened_or_did_not(
    node: JetgateServer, body: dict[str, object]
) -> None:
    """A crash in the middle of a purge left a stream from which some of it was gone."""
    name = "PART"
    with Desk(node) as desk:
        desk.stream(name)
        for i in range(4000):
            desk.wire.publish(f"{name}.{i % 2}", b"m")
        eventually(lambda: desk.state(name)["messages"] == 4000, within=60)
        asked = json.dumps(body).encode()
        desk.wire.publish(f"$JS.API.STREAM.PURGE.{name}", asked)
        node.kill()
    node.start()
    with Desk(node) as desk:
        state = desk.state(name)
        after = 2000 if "seq" in body else 2010
        assert state["messages"] in (4000, after)
        assert sum(state["subjects"].values()) == state["messages"]
        desk.ok(f"STREAM.DELETE.{name}")
