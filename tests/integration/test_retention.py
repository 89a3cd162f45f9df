"""Work queues and interest streams with a client library, on both servers."""

# Subject: retention

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy

from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

_numbers = count()
Server = JetgateServer | NatsServer


@asynccontextmanager
async def _stream(server: Server, retention: RetentionPolicy) -> AsyncIterator["Bench"]:
    host, port = server.address
    client = await nats.connect(f"nats://{host}:{port}")
    name = f"RET{next(_numbers)}"
    try:
        js = client.jetstream(timeout=30)
        await js.add_stream(name=name, subjects=[f"{name}.>"], retention=retention)
        yield Bench(client, js, name)
        await js.delete_stream(name)
    finally:
        await client.close()


class Bench:
    """One stream and its client."""

    def __init__(self, client: Client, js: JetStreamContext, name: str) -> None:
        self.client = client
        self.js = js
        self.name = name

    async def publish(self, *subjects: str) -> list[int]:
        return [(await self.js.publish(f"{self.name}.{s}", s.encode())).seq for s in subjects]

    async def consumer(
        self, name: str, subject: str = ">", policy: AckPolicy = AckPolicy.EXPLICIT
    ) -> JetStreamContext.PullSubscription:
        config = ConsumerConfig(
            durable_name=name, filter_subject=f"{self.name}.{subject}", ack_policy=policy
        )
        await self.js.add_consumer(self.name, config)
        return await self.js.pull_subscribe_bind(durable=name, stream=self.name)

    async def left(self) -> int:
        return (await self.js.stream_info(self.name)).state.messages

    async def is_empty(self) -> bool:
        return not await self.left()


def _run(test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await test()

    asyncio.run(run())


def test_workers_share_a_queue(server: Server) -> None:
    async def test() -> None:
        async with _stream(server, RetentionPolicy.WORK_QUEUE) as bench:
            await bench.publish(*["job"] * 200)
            done: list[int] = []

            async def work() -> None:
                jobs = await bench.js.pull_subscribe_bind(durable="w", stream=bench.name)
                while len(done) < 200:
                    try:
                        found = await jobs.fetch(7, timeout=2)
                    except TimeoutError:
                        continue
                    for message in found:
                        done.append(message.metadata.sequence.stream)
                        await message.ack()

            await bench.consumer("w")
            await asyncio.gather(*(work() for _ in range(4)))
            assert sorted(done) == list(range(1, 201))
            # An acknowledgement without an answer is taken note of some time later.
            await observed(bench.is_empty)
            assert await bench.publish("job") == [201]
            assert await bench.left() == 1

    _run(test)


def test_each_subscriber_of_an_interest_stream_gets_its_copy(server: Server) -> None:
    async def test() -> None:
        async with _stream(server, RetentionPolicy.INTEREST) as bench:
            assert await bench.publish("a", "b") == [1, 2]
            assert await bench.left() == 0
            everything = await bench.consumer("all")
            some = await bench.consumer("b", "b")
            assert await bench.publish("a", "b", "a", "b") == [3, 4, 5, 6]
            assert await bench.left() == 4
            for message in await everything.fetch(4, timeout=30):
                await message.ack_sync(timeout=30)
            assert await bench.left() == 2
            for message in await some.fetch(2, timeout=30):
                await message.ack_sync(timeout=30)
            assert await bench.left() == 0

    _run(test)


def test_acks_survive_a_restart(jetgate_server: JetgateServer) -> None:
    name = f"RET{next(_numbers)}"
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        stream = {"name": name, "subjects": [f"{name}.>"], "retention": "interest"}
        wire.api(f"STREAM.CREATE.{name}", stream)
        for consumer in "ab":
            config = {"durable_name": consumer, "ack_policy": "explicit"}
            request = {"stream_name": name, "config": config}
            wire.api(f"CONSUMER.CREATE.{name}.{consumer}", request)
        for _ in range(3):
            wire.request(f"{name}.x", b"m")
        wire.send(b"SUB in 1\r\n")
        for consumer in "ab":
            wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.{consumer}", b"3", reply=b"in")
            replies = [wire.frame().reply.decode() for _ in range(3)]
            for reply in replies[: 2 if consumer == "a" else 1]:
                wire.request(reply, b"+ACK")
    jetgate_server.restart()
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        state = wire.api(f"STREAM.INFO.{name}")["state"]
        assert (state["messages"], state["first_seq"]) == (2, 2)
        pending = [
            wire.api(f"CONSUMER.INFO.{name}.{consumer}")["num_ack_pending"] for consumer in "ab"
        ]
        assert pending == [1, 2]
        wire.api(f"STREAM.DELETE.{name}")
