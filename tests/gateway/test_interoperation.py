"""What one side does over HTTP the other sees with the official client, and the other way round."""

# Subject: HTTP

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig

from tests.gateway.conftest import Stream
from tests.gateway.test_consuming import fetch
from tests.gateway.web import Answer
from tests.support.eventually import eventually

T = TypeVar("T")


@pytest.fixture
def address(request: pytest.FixtureRequest, stream: Stream) -> str:
    assert stream
    which = request.node.callspec.params["web"]
    server = request.getfixturevalue("jetgate_server" if which == "jetgate" else "nats_server")
    return "nats://{}:{}".format(*server.address)


def run(address: str, work: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        client = await nats.connect(address)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(connected())


def test_a_service_of_nats_py_answers(stream: Stream, address: str) -> None:
    subject = f"double-{stream.prefix}"

    async def serve(client: Client) -> Answer:
        async def double(msg: Msg) -> None:
            await client.publish(msg.reply, b"%d" % (2 * int(msg.data)), headers={"X": "y"})

        await client.subscribe(subject, cb=double)
        await client.flush()
        path = f"/v1/subjects/{subject}:request"
        return await asyncio.to_thread(stream.web.send, "POST", path, b"21")

    answer = run(address, serve)

    assert (answer.status, answer.body, answer.headers["nats-h-x"]) == (200, b"42", "y")


def test_nats_py_reads_a_batch_and_an_event(stream: Stream, address: str) -> None:
    stream.web.json("PATCH", stream.path, {"allow_atomic": True})
    lines = [{"subject": stream.subject("a"), "data": {"n": n}} for n in (1, 2)]
    assert stream.web.json("POST", "/v1/publish:atomic", lines).status == 201
    event = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t"}
    stream.publish("b", b"{}", Content_Type="application/json", **event)

    async def read(client: Client) -> list[Msg]:
        js = client.jetstream(timeout=30)
        pulled = await js.pull_subscribe(stream.subject(">"), durable="P", stream=stream.name)
        return await pulled.fetch(3, timeout=30)

    first, second, third = run(address, read)

    assert [json.loads(first.data)["n"], json.loads(second.data)["n"]] == [1, 2]
    assert third.headers is not None
    assert (third.headers["ce-id"], third.headers["ce-datacontenttype"]) == (
        "1",
        "application/json",
    )


def test_http_goes_on_where_nats_py_paused_and_acknowledged(stream: Stream, address: str) -> None:
    consumer = stream.consumer("C")
    for _ in range(2):
        stream.publish("a")

    async def take_one(client: Client) -> None:
        js = client.jetstream(timeout=30)
        pulled = await js.pull_subscribe_bind("C", stream=stream.name)
        (msg,) = await pulled.fetch(1, timeout=30)
        await msg.ack_sync(timeout=30)

    run(address, take_one)

    assert [message["seq"] for message in fetch(stream, consumer, expires="30s")] == [2]


@pytest.mark.parametrize("web", ["jetgate"], indirect=True)  # nats-server has no dead letters
def test_a_message_terminated_by_nats_py_is_a_dead_letter(stream: Stream, address: str) -> None:
    dead = f"DEAD-{stream.name}"
    assert stream.web.json("PUT", f"/v1/streams/{dead}", {"allow_direct": True}).status == 201
    stream.publish("a", b"bad")

    async def terminate(client: Client) -> None:
        js = client.jetstream(timeout=30)
        metadata = {"jetgate.dead_letter": dead}
        config = ConsumerConfig(durable_name="C", metadata=metadata)
        await js.add_consumer(stream.name, config)
        pulled = await js.pull_subscribe_bind("C", stream=stream.name)
        (msg,) = await pulled.fetch(1, timeout=30)
        await msg.term()
        await client.flush()

    run(address, terminate)

    def dead_letters() -> list[Any]:
        read = stream.web.json("POST", f"/v1/streams/{dead}/messages:read", {})
        return list(read.json()["messages"])

    (letter,) = eventually(dead_letters)
    assert (letter["text"], letter["headers"]["Jetgate-Dead-Consumer"]) == ("bad", ["C"])
    stream.web.delete(f"/v1/streams/{dead}")
