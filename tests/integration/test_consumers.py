"""Consumers over the wire and through the official client, on both servers."""

# Subject: pull consumers, push consumers

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, KeyValueConfig, StreamConfig

from tests.clients.python.watchers import attentive
from tests.support.consumer_bench import Bench
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

Server = JetgateServer | NatsServer
_numbers = count()


def test_pull_shows_sequences_and_counts(bench: Bench) -> None:
    bench.consumer()
    assert bench.pull(b"2", count=2) == [(b"1.1.1.4", b"m0"), (b"1.2.2.3", b"m1")]
    assert bench.state() == {
        "delivered": (2, 2),
        "floor": (0, 0),
        "ack_pending": 2,
        "redelivered": 0,
        "waiting": 0,
        "pending": 3,
    }


def test_ack_moves_the_floor(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"3", count=3)
    for numbers, left, floor in ((b"1.2.2", 2, 0), (b"1.1.1", 1, 2), (b"1.3.3", 0, 3)):
        bench.ack(numbers)
        assert bench.reaches(ack_pending=left)["floor"] == (floor, floor)


def test_floor_of_a_filtered_consumer(bench: Bench) -> None:
    bench.consumer(filter_subjects=["s.1", "s.3"])
    bench.pull(b"2", count=2)
    assert bench.state()["floor"] == (0, 0)
    bench.ack(b"1.2.1")
    state = bench.reaches(ack_pending=1)
    assert (state["delivered"], state["floor"], state["pending"]) == ((2, 4), (1, 3), 0)


def test_redelivery_keeps_the_first_consumer_sequence(bench: Bench) -> None:
    bench.consumer(ack_wait=200_000_000, filter_subjects=["s.0", "s.1"])
    bench.pull(b"2", count=2)
    assert bench.pull(b"2", count=2) == [(b"2.1.3.0", b"m0"), (b"2.2.4.0", b"m1")]
    bench.ack(b"2.1.3")
    state = bench.reaches(ack_pending=1)
    assert (state["floor"], state["redelivered"], state["delivered"]) == ((1, 1), 1, (4, 2))


def test_nak_with_delay_and_without(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"2", count=2)
    for numbers, payload in ((b"1.1.1", b"-NAK 1s"), (b"1.2.2", b"-NAK")):
        bench.ack(numbers, payload, b"in.done")
        assert bench.arrived(count=1) == [(b"in.done", b"")]
    assert bench.pull(b'{"batch":1,"no_wait":true}', count=1) == [(b"2.2.3.3", b"m1")]
    got = bench.pull(b'{"batch":4,"expires":20000000000}', count=4)
    assert sorted(payload for _, payload in got) == [b"m0", b"m2", b"m3", b"m4"]


def test_nak_with_a_delay_beyond_every_duration(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"2", count=2)
    bench.ack(b"1.1.1", b'-NAK {"delay": 600000000}', b"in.done")
    bench.ack(b"1.2.2", b'-NAK {"delay": 1000000000000000000000}', b"in.done")
    assert bench.arrived(count=2) == [(b"in.done", b"")] * 2
    assert bench.pull(b'{"batch":1,"no_wait":true}', count=1) == [(b"2.2.3.3", b"m1")]


def test_next_in_all_forms(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"1", count=1)
    bench.ack(b"1.1.1", b"+NXT", b"in.next")
    assert bench.arrived(count=1) == [(b"1.2.2.3", b"m1")]
    bench.ack(b"1.2.2", b"+NXT 2", b"in.next")
    assert bench.arrived(count=2) == [(b"1.3.3.2", b"m2"), (b"1.4.4.1", b"m3")]
    bench.ack(b"1.4.4", b'+NXT {"batch":5,"no_wait":true}', b"in.next")
    assert bench.arrived(count=2) == [
        (b"1.5.5.0", b"m4"),
        (b"in.next", b"NATS/1.0 404 No Messages\r\n\r\n"),
    ]


@pytest.mark.parametrize("payload", [b"+ACK", b"", b"-NAK", b"+WPI", b"+TERM done", b"nonsense"])
def test_acknowledgement_with_a_reply_is_answered(bench: Bench, payload: bytes) -> None:
    bench.consumer()
    bench.pull(b"1", count=1)
    bench.ack(b"1.1.1", payload, b"in.answer")
    assert bench.arrived(count=1) == [(b"in.answer", b"")]


def test_repeated_double_ack_is_answered_and_a_foolish_one_is_not(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"1", count=1)
    for _ in range(2):
        bench.ack(b"1.1.1", b"+ACK", b"in.answer")
        assert bench.arrived(count=1) == [(b"in.answer", b"")]
    bench.ack(b"1.4.4", b"+ACK", b"in.answer")
    assert bench.arrived() == []


def test_max_deliver_keeps_the_count_and_the_floor(bench: Bench) -> None:
    bench.consumer(ack_wait=150_000_000, max_deliver=2, filter_subject="s.0")
    bench.pull(b"1", count=1)
    body = b'{"batch":1,"expires":20000000000}'
    assert bench.pull(body, count=1) == [(b"2.1.2.0", b"m0")]
    assert bench.frames(0.5) == []
    bench.wire.request("s.0", b"new")
    assert bench.pull(body, count=1) == [(b"1.6.3.0", b"new")]
    state = bench.state()
    assert (state["ack_pending"], state["floor"], state["delivered"]) == (1, (0, 0), (3, 6))
    assert state["redelivered"] == 1


def test_no_wait_forms(bench: Bench) -> None:
    bench.consumer()
    body = b'{"batch":7,"no_wait":true}'
    got = bench.pull(body, count=6)
    assert [payload for _, payload in got[:5]] == [b"m%d" % i for i in range(5)]
    assert [payload for _, payload in got[5:]] == [b"NATS/1.0 404 No Messages\r\n\r\n"]
    assert bench.pull(body, count=1) == [(b"in.2", b"NATS/1.0 404 No Messages\r\n\r\n")]


def test_max_bytes(bench: Bench) -> None:
    bench.consumer()
    got = bench.pull(b'{"batch":5,"max_bytes":120,"expires":20000000000}', count=3)
    assert [payload.split(b"\r\n")[0] for _, payload in got] == [
        b"m0",
        b"m1",
        b"NATS/1.0 409 Message Size Exceeds MaxBytes",
    ]
    assert bench.state()["delivered"] == (2, 2)


def test_timeout_echoes_what_was_asked(bench: Bench) -> None:
    bench.consumer(filter_subject="s.none")
    got = bench.pull(b'{"batch":4,"max_bytes":99,"expires":100000000}', count=1)
    assert got == [
        (
            b"in.1",
            b"NATS/1.0 408 Request Timeout\r\n"
            b"Nats-Pending-Messages: 4\r\nNats-Pending-Bytes: 99\r\n\r\n",
        )
    ]


def test_position_is_that_of_the_last_delivery(bench: Bench) -> None:
    bench.consumer(filter_subject="s.1")
    bench.pull(b'{"batch":2,"expires":100000000}', count=2)
    bench.ack(b"1.2.1")
    bench.wire.request("s.x", b"")
    state = bench.reaches(ack_pending=0)
    assert (state["delivered"], state["floor"], state["pending"]) == ((1, 2), (1, 2), 0)


def test_max_ack_pending_holds_back(bench: Bench) -> None:
    bench.consumer(max_ack_pending=2)
    assert len(bench.pull(b"5", count=2)) == 2
    assert bench.state()["waiting"] == 1
    bench.ack(b"1.1.1")
    assert bench.arrived(count=1) == [(b"1.3.3.2", b"m2")]


def test_deleted_consumer_ends_its_requests(bench: Bench) -> None:
    bench.consumer(filter_subject="s.none")
    bench.request(b"1")
    bench.reaches(waiting=1)
    bench.wire.publish(f"$JS.API.CONSUMER.DELETE.{bench.name}.c")
    assert (b"in.1", b"NATS/1.0 409 Consumer Deleted\r\n\r\n") in bench.arrived(count=1)


def test_deleted_stream_ends_the_requests_of_its_consumers(bench: Bench) -> None:
    bench.consumer(filter_subject="s.none")
    bench.request(b"1")
    bench.reaches(waiting=1)
    bench.wire.publish(f"$JS.API.STREAM.DELETE.{bench.name}")
    assert (b"in.1", b"NATS/1.0 409 Consumer Deleted\r\n\r\n") in bench.arrived(count=1)


def test_deleted_message_is_no_longer_pending(bench: Bench) -> None:
    bench.consumer(max_ack_pending=3)
    bench.pull(b"2", count=2)
    bench.wire.api(f"STREAM.MSG.DELETE.{bench.name}", {"seq": 1})
    bench.wire.api(f"STREAM.MSG.DELETE.{bench.name}", {"seq": 4})
    state = bench.reaches(ack_pending=1)
    assert (state["floor"], state["pending"]) == ((1, 1), 2)
    assert [payload for _, payload in bench.pull(b"5", count=2)] == [b"m2", b"m4"]


def test_purge_moves_everything(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"2", count=2)
    bench.wire.api(f"STREAM.PURGE.{bench.name}")
    state = bench.state()
    assert (state["delivered"][1], state["floor"][1]) == (5, 5)
    assert (state["ack_pending"], state["pending"]) == (0, 0)


def test_purge_below_a_sequence(bench: Bench) -> None:
    bench.consumer()
    bench.wire.api(f"STREAM.PURGE.{bench.name}", {"seq": 4})
    assert bench.state()["pending"] == 2
    assert [payload for _, payload in bench.pull(b"2", count=2)] == [b"m3", b"m4"]


def test_purge_by_subject(bench: Bench) -> None:
    bench.consumer()
    bench.pull(b"2", count=2)
    bench.wire.api(f"STREAM.PURGE.{bench.name}", {"filter": "s.3"})
    state = bench.state()
    assert (state["ack_pending"], state["pending"]) == (2, 2)


def test_filter_update_counts_anew(bench: Bench) -> None:
    bench.consumer(filter_subject="s.1")
    assert bench.consumer(filter_subject="s.>")["num_pending"] == 5


@pytest.mark.parametrize(
    ("config", "start", "pending"),
    [
        ({"deliver_policy": "all"}, 0, 5),
        ({"deliver_policy": "last"}, 4, 1),
        ({"deliver_policy": "last", "filter_subject": "s.2"}, 2, 1),
        ({"deliver_policy": "new"}, 5, 0),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 2, 3),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 30}, 29, 0),
        ({"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}, 0, 5),
        ({"deliver_policy": "last_per_subject", "filter_subject": "s.>"}, 0, 5),
    ],
)
def test_start_position(bench: Bench, config: dict[str, Any], start: int, pending: int) -> None:
    info = bench.consumer(**config)
    assert info["delivered"]["stream_seq"] == info["ack_floor"]["stream_seq"] == start
    assert info["num_pending"] == pending


def test_push_needs_a_subscriber(bench: Bench) -> None:
    info = bench.consumer(deliver_subject="to.me", ack_policy="none", max_deliver=-1)
    assert not info.get("push_bound")
    bench.wire.send(b"SUB to.me 7\r\n")
    assert [payload for _, payload in bench.arrived(count=5)] == [b"m%d" % i for i in range(5)]
    assert bench.wire.api(f"CONSUMER.INFO.{bench.name}.c")["push_bound"] is True
    bench.wire.send(b"UNSUB 7\r\n")
    bench.wire.request("s.5", b"later")
    assert bench.arrived() == []


def test_headers_only(bench: Bench) -> None:
    bench.consumer(headers_only=True, deliver_policy="last")
    assert bench.pull(b"1", count=1) == [(b"1.5.1.0", b"NATS/1.0\r\nNats-Msg-Size: 2\r\n\r\n")]


def test_restart_keeps_what_was_acknowledged(jetgate_server: JetgateServer) -> None:
    with Wire(jetgate_server.address) as wire:
        bench = Bench(wire)
        bench.consumer(ack_wait=1_000_000_000)
        bench.pull(b"3", count=3)
        bench.ack(b"1.2.2", b"+ACK", b"in.done")
        assert bench.arrived(count=1) == [(b"in.done", b"")]
    jetgate_server.restart()
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        wire.send(b"SUB in.> 1\r\n")
        bench.wire = wire
        state = bench.state()
        assert (state["delivered"], state["pending"], state["ack_pending"]) == ((3, 3), 2, 2)
        got = bench.pull(b'{"batch":4,"expires":20000000000}', count=4)
        assert sorted(payload for _, payload in got) == [b"m0", b"m2", b"m3", b"m4"]


# --- the official client -----------------------------------------------------------------------


def unused() -> str:
    """A stream's name that none had: the reference removes files behind its answer."""
    return f"C{next(_numbers)}"


def client(server: Server, body: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        connection = await nats.connect("nats://{}:{}".format(*server.address))
        try:
            js = connection.jetstream(timeout=30)
            for found in await js.streams_info():
                await js.delete_stream(str(found.config.name))
            await body(connection)
        finally:
            await connection.close()

    asyncio.run(main())


def test_client_pulls_and_acks(server: Server) -> None:
    async def body(connection: Client) -> None:
        js = connection.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name=unused(), subjects=["c.>"]))
        for i in range(30):
            await js.publish("c.x", b"%d" % i)
        subscription = await js.pull_subscribe("c.x", "d")
        got: list[bytes] = []
        while len(got) < 30:
            for msg in await subscription.fetch(7, timeout=20):
                got.append(msg.data)
                await msg.ack_sync(timeout=20)
        info = await subscription.consumer_info()
        assert got == [b"%d" % i for i in range(30)]
        assert info.ack_floor is not None
        assert (info.num_ack_pending, info.num_pending, info.ack_floor.stream_seq) == (0, 0, 30)
        with pytest.raises(nats.errors.TimeoutError):
            await subscription.fetch(1, timeout=0.2)

    client(server, body)


def test_client_pushes_with_a_callback(server: Server) -> None:
    async def body(connection: Client) -> None:
        js = connection.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name=unused(), subjects=["c.>"]))
        for i in range(10):
            await js.publish("c.x", b"%d" % i)
        subscription = await js.subscribe(
            "c.>",
            manual_ack=True,
            config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, deliver_policy=DeliverPolicy.ALL),
        )
        for i in range(10):
            msg = await subscription.next_msg(20)
            assert msg.data == b"%d" % i
            await msg.ack_sync(timeout=20)
        assert (await subscription.consumer_info()).num_ack_pending == 0

    client(server, body)


def test_client_ordered_consumer_with_flow_control(server: Server) -> None:
    async def body(connection: Client) -> None:
        js = connection.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name=unused(), subjects=["c.>"]))
        payload = bytes(16 * 1024)
        for _ in range(300):
            await js.publish("c.x", payload)
        subscription = await js.subscribe("c.>", ordered_consumer=True)
        for i in range(300):
            msg = await subscription.next_msg(20)
            assert msg.metadata.sequence.stream == i + 1

    client(server, body)


def test_client_key_value_watch_keys_and_history(server: Server) -> None:
    async def body(connection: Client) -> None:
        js = connection.jetstream(timeout=30)
        kv = await js.create_key_value(KeyValueConfig(bucket="kv", history=5))
        for i in range(3):
            await kv.put("a", b"%d" % i)
        await kv.put("b", b"x")
        await kv.delete("b")
        assert await kv.keys() == ["a"]
        assert [entry.value for entry in await kv.history("a")] == [b"0", b"1", b"2"]
        watcher = await kv.watchall()
        assert (await watcher.updates(timeout=20)).key == "a"
        assert (await watcher.updates(timeout=20)).operation == "DEL"
        assert await watcher.updates(timeout=20) is None
        await kv.put("c", b"new")
        assert (await watcher.updates(timeout=20)).value == b"new"
        await watcher.stop()

    with attentive(server):
        client(server, body)


def test_client_queue_group_shares(server: Server) -> None:
    async def body(connection: Client) -> None:
        js = connection.jetstream(timeout=30)
        await js.add_stream(StreamConfig(name=unused(), subjects=["c.>"]))
        seen: list[int] = []
        done = asyncio.Event()

        async def take(worker: int, msg: Any) -> None:
            seen.append(worker)
            if len(seen) == 40:
                done.set()

        for worker in (0, 1):
            await js.subscribe("c.>", queue="q", durable="q", cb=partial(take, worker))
        for _ in range(40):
            await js.publish("c.x", b"")
        await asyncio.wait_for(done.wait(), 20)
        assert set(seen) == {0, 1}

    client(server, body)
