"""The Python SDK: what it sends, reads, repeats and raises."""

# Subject: SDKs

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jetgate_client as sdk
import pytest
from jetgate_client.generated.api.consumers import read_consumer
from jetgate_client.generated.api.streams import delete_stream, read_stream

from tests.sdks.lossy import LossyWay
from tests.support.scenario import run_within

QUICK = sdk.Retry(first=0.01, most=0.05, writes_for=20)


@asynccontextmanager
async def stream(url: str, name: str, **config: object) -> AsyncIterator[sdk.Jetgate]:
    """A client, and a stream with all subjects below its name for as long as it is used."""
    async with sdk.connect(url, retry=QUICK) as js:
        await js.put_stream(name, **{"subjects": [f"{name}.>"], "allow_direct": True} | config)
        yield js
        await delete_stream.asyncio_detailed(name, client=js.api)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\xff", "grüße\u2028zwei", '{"a": 1.10, "b": "\u2028"}', "[1 , 2]", '"text"'],
)
def test_payloads_come_as_they_were_sent(url: str, name: str, payload: sdk.Payload) -> None:
    expected = payload if isinstance(payload, bytes) else str(payload).encode()

    async def scenario() -> None:
        async with stream(url, name) as js:
            receipt = await js.publish(f"{name}.x", payload, headers={"X-Region": "eu"})
            read = await js.message(name, receipt.seq)
            last = await js.last_message(name, f"{name}.x")
            await js.put_consumer(name, "C", ack_policy="explicit")
            async with js.consume(name, "C") as messages:
                fetched = await anext(aiter(messages))
            assert [each.payload for each in (read, last, fetched)] == [expected] * 3
            assert read.headers["X-Region"] == fetched.headers["X-Region"] == ["eu"]

    run_within(60, scenario)


def test_json_is_sent_as_such(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            await js.publish(f"{name}.x", {"id": 7})
            message = await js.last_message(name, f"{name}.x")
            assert message.json() == {"id": 7}
            assert message.headers["Content-Type"] == ["application/json"]

    run_within(60, scenario)


def test_a_publish_whose_answer_was_lost_is_stored_once(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with stream(way.url, name) as js:
            way.lose = 3
            receipt = await js.publish(f"{name}.x", b"once")
            assert way.lost == 3
            assert receipt.duplicate
            info = await read_stream.asyncio(name, client=js.api)
            assert info is not None
            assert info.state.messages == 1

    run_within(60, scenario)


def test_a_batch_whose_answer_was_lost_is_stored_once(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with stream(way.url, name) as js:
            way.lose = 1
            batch = [sdk.Outgoing(f"{name}.{i}", {"i": i}) for i in range(2500)]
            outcomes = await js.publish_many([*batch, sdk.Outgoing("nobody.takes", b"")])
            assert way.lost == 1
            seqs = [each.seq for each in outcomes if isinstance(each, sdk.Receipt)]
            assert seqs == list(range(1, 2501))
            assert isinstance(outcomes[-1], sdk.NotFound)
            assert outcomes[-1].kind == "no-stream"

    run_within(60, scenario)


def test_an_unknown_outcome_is_reported(name: str) -> None:
    async def scenario() -> None:
        brief = sdk.Retry(first=0.01, most=0.01, writes_for=0.05)
        async with sdk.connect("http://127.0.0.1:9", retry=brief) as js:
            with pytest.raises(sdk.OutcomeUnknown) as told:
                await js.publish(f"{name}.x", b"", msg_id="m1")
            assert told.value.msg_id == "m1"
            with pytest.raises(sdk.ConnectionLost):
                await js.request("asked")

    run_within(60, scenario)


def test_problems_are_exceptions(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            with pytest.raises(sdk.NotFound) as absent:
                await read_stream.asyncio("ABSENT", client=js.api)
            assert (absent.value.kind, absent.value.err_code) == ("stream-not-found", 10059)
            await js.publish(f"{name}.x", b"1")
            with pytest.raises(sdk.PreconditionFailed) as changed:
                await js.publish(f"{name}.x", b"2", last_seq=0)
            assert changed.value.current_sequence == 1
            with pytest.raises(sdk.Forbidden):
                await js.publish("$SYS.x", b"")
            with pytest.raises(sdk.BadRequest):
                await js.publish("a..b", b"")
            with pytest.raises(sdk.NotFound):
                await anext(aiter(js.consume(name, "ABSENT")))

    run_within(60, scenario)


async def _taken(delivery: sdk.Delivery) -> str:
    await delivery.ack(sync=True)
    return delivery.text()


def test_consuming_goes_on_after_lost_connections(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with stream(way.url, name) as js:
            # Whom the server has not yet seen leave may be sent a message: it comes again.
            await js.put_consumer(name, "C", ack_policy="explicit", ack_wait=10**9)
            got: list[str] = []
            async with js.consume(name, "C", heartbeat=1) as messages:
                deliveries = aiter(messages)
                for i in range(6):
                    if i % 2:
                        way.break_connections()
                    waiting = asyncio.ensure_future(anext(deliveries))
                    await js.publish(f"{name}.x", str(i))
                    got.append(await _taken(await waiting))
                    while got[-1] != str(i):
                        got.append(await _taken(await anext(deliveries)))
            assert list(dict.fromkeys(got)) == ["0", "1", "2", "3", "4", "5"]
            info = await read_consumer.asyncio(name, "C", client=js.api)
            assert info is not None
            assert info.num_ack_pending == 0

    run_within(60, scenario)


def test_fetched_messages_that_were_not_taken_are_returned(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            await js.put_consumer(name, "C", ack_policy="explicit", ack_wait=3600 * 10**9)
            await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(10))
            async with js.consume(name, "C") as messages:
                first = await anext(aiter(messages))
            async with js.consume(name, "C") as messages:
                second = await anext(aiter(messages))
            assert (first.payload, second.payload) == (b"0", b"1")
            assert second.delivered == 2

    run_within(60, scenario)


def test_ending_a_consumption_returns_messages_that_were_not_taken(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            await js.put_consumer(name, "C", ack_policy="explicit", ack_wait=3600 * 10**9)
            await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(3))
            assert (await anext(aiter(js.consume(name, "C")))).payload == b"0"
            gc.collect()
            async with js.consume(name, "C") as messages:
                deliveries = aiter(messages)
                again = [await anext(deliveries) for _ in range(2)]
            assert [(each.payload, each.delivered) for each in again] == [(b"1", 2), (b"2", 2)]

    run_within(60, scenario)


def test_every_way_to_acknowledge(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            await js.put_consumer(name, "C", ack_policy="explicit", ack_wait=3600 * 10**9)
            await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(4))
            async with js.consume(name, "C", batch=4) as messages:
                deliveries = aiter(messages)
                zero, one, two, three = [await anext(deliveries) for _ in range(4)]
                await zero.nak(sync=True)
                again = await anext(deliveries)
                assert (again.payload, again.delivered) == (b"0", 2)
                await one.progress(sync=True)
                await two.term("no use", sync=True)
                await js.ack([again, one, three], sync=True)
            info = await read_consumer.asyncio(name, "C", client=js.api)
            assert info is not None
            assert (info.num_ack_pending, info.num_pending) == (0, 0)

    run_within(60, scenario)


def test_keys_of_a_bucket(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            kv = await js.put_bucket(name, history=5)
            assert await kv.get("a") is None
            way.lose = 1
            first = await kv.create("a", {"n": 1})
            with pytest.raises(sdk.PreconditionFailed):
                await kv.create("a", b"again")
            way.lose = 1
            second = await kv.update("a", b"\x00\x01", first)
            assert way.lost == 2
            with pytest.raises(sdk.PreconditionFailed) as changed:
                await kv.update("a", b"late", first)
            assert changed.value.current_sequence == second
            entry = await kv.get("a")
            assert entry is not None
            assert (entry.revision, entry.value) == (second, b"\x00\x01")
            older = await kv.get("a", revision=first)
            assert older is not None
            assert older.json() == {"n": 1}
            await kv.put("b/c", "text")
            assert await kv.keys() == ["a", "b/c"]
            await kv.delete("a")
            assert await kv.get("a") is None
            history = [(each.operation, each.value) for each in await kv.history("a")]
            assert history == [("PUT", b'{"n":1}'), ("PUT", b"\x00\x01"), ("DEL", b"")]
            await kv.purge("a")
            assert [each.operation for each in await kv.history("a")] == ["PURGE"]
            await delete_stream.asyncio_detailed(f"KV_{name}", client=js.api)

    run_within(60, scenario)


def test_a_watch_misses_nothing_when_it_is_broken(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            kv = await js.put_bucket(name, history=5)
            await kv.put("a", "0")
            seen: list[tuple[str, bytes]] = []
            async for change in kv.watch():
                seen.append((change.event, change.entry.value if change.entry else b""))
                if change.event != "put" and len(seen) == 2:
                    await kv.put("a", "1")
                elif change.event == "put" and 2 < len(seen) < 6:
                    way.break_connections()
                    await kv.put("a", str(len(seen) - 1))
                elif len(seen) == 6:
                    break
            assert seen == [
                ("put", b"0"),
                ("ready", b""),
                *(("put", b"%d" % i) for i in range(1, 5)),
            ]
            await delete_stream.asyncio_detailed(f"KV_{name}", client=js.api)

    run_within(60, scenario)


def test_a_watch_of_a_recreated_bucket_reports_it(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            kv = await js.put_bucket(name)
            await kv.put("a", "old")
            watch = kv.watch()
            assert [(await anext(watch)).event for _ in range(2)] == ["put", "ready"]
            # On another way: the feed is to be away meanwhile, not ended by the deletion.
            await delete_stream.asyncio_detailed(f"KV_{name}", client=js.api)
            with pytest.raises(sdk.NotFound):
                await anext(watch)
            kv = await js.put_bucket(name)
            await delete_stream.asyncio_detailed(f"KV_{name}", client=js.api)

    run_within(60, scenario)


def test_advisories_report_their_gaps(way: LossyWay, name: str) -> None:
    async def scenario() -> None:
        async with sdk.connect(way.url, retry=QUICK) as js:
            events = js.advisories("ADVISORY.STREAM.CREATED.*")

            async def next_of(made: str) -> list[str]:
                kinds = []
                waiting = asyncio.ensure_future(anext(events))
                numbers = iter(range(1000))
                while not waiting.done() or waiting.result().kind == "gap":
                    if waiting.done():
                        kinds.append(waiting.result().kind)
                        waiting = asyncio.ensure_future(anext(events))
                    stream_name = f"{made}{next(numbers)}"
                    await js.put_stream(stream_name, subjects=[stream_name])
                    await delete_stream.asyncio_detailed(stream_name, client=js.api)
                return [*kinds, waiting.result().kind]

            assert await next_of(name) == ["stream_action"]
            way.break_connections()
            found = await next_of(f"{name}again")
            assert found[0] in ("gap", "stream_action")
            while "gap" not in found:
                found = await next_of(f"{name}later")

    run_within(60, scenario)


def test_a_request_is_answered(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            reply = await js.request(f"{name}.x", b"asked")
            assert reply.json() == {"stream": name, "seq": 1}
            with pytest.raises(sdk.ServerProblem) as nobody:
                await js.request("nobody.there", within=20)
            assert nobody.value.kind == "no-responders"

    run_within(60, scenario)


def test_an_unclosed_client_ends_without_a_warning(url: str, name: str) -> None:
    said: list[dict[str, object]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with stream(url, name) as js:
            await js.put_consumer(name, "C", ack_policy="explicit")
            bucket = await js.put_bucket(name)
            await js.publish_many([sdk.Outgoing(f"{name}.x")] * 3)
            socket = js.socket()
            feeds = [
                aiter(js.consume(name, "C")),
                js.tail(name, begin="all"),
                bucket.watch(),
                aiter(socket.tail(name, begin="all")),
                aiter(socket.consume(name, "C")),
            ]
            for feed in feeds[:4]:
                await anext(feed)
            await socket.aclose()

    run_within(60, scenario)

    assert said == []
