"""The Python SDK over one WebSocket: what it sends, reads, resumes, repeats and raises."""

# Subject: SDKs

import asyncio
from contextlib import suppress
from itertools import count

import jetgate_client as sdk
import nats
import pytest
from jetgate_client.generated.api.consumers import read_consumer
from jetgate_client.generated.api.streams import delete_stream, purge_stream, read_stream
from jetgate_client.generated.models import PurgeRequest
from nats.aio.client import Client

from tests.sdks.lossy import LossyWay
from tests.sdks.test_python import QUICK, stream
from tests.support.jetgate import JetgateServer
from tests.support.scenario import run_within

_EACH_WAY = 20
"""Messages before the kill, and after it."""


def test_payloads_and_headers_come_as_they_were_sent(url: str, name: str) -> None:
    payloads: list[bytes | str] = [b"", b"\x00\xff", "grüße\u2028zwei", '{"a":\n1.10}', "[1 , 2]"]

    async def scenario() -> None:
        async with stream(url, name) as js, js.socket() as socket:
            messages = socket.tail(name, begin="all")
            for seq, payload in enumerate(payloads, 1):
                expected = payload if isinstance(payload, bytes) else payload.encode()
                receipt = await socket.publish(f"{name}.x", payload, headers={"X-Region": "eu"})
                assert (receipt.stream, receipt.seq, receipt.duplicate) == (name, seq, False)
                followed = await anext(aiter(messages))
                assert isinstance(followed, sdk.Message)
                read = await socket.message(name, seq)
                last = await socket.last_message(name, f"{name}.x")
                assert [each.payload for each in (followed, read, last)] == [expected] * 3
                assert followed.headers["X-Region"] == ["eu"]
                assert (read.stream, read.seq, read.subject) == (name, seq, f"{name}.x")
            await socket.publish(f"{name}.x", {"id": 7})
            assert (await socket.last_message(name, f"{name}.x")).json() == {"id": 7}
            with pytest.raises(sdk.NotFound):
                await socket.message(name, 99)

    run_within(60, scenario)


def test_a_publish_whose_receipt_was_lost_is_stored_once(
    way: LossyWay, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with (
            stream(url, name) as js,
            sdk.connect(way.url, retry=QUICK) as client,
            client.socket() as socket,
        ):
            await socket.publish(f"{name}.x", "first")
            way.lose = 1
            receipt = await socket.publish(f"{name}.x", "once", msg_id="m")
            assert (receipt.seq, receipt.duplicate, way.lost) == (2, True, 1)
            sent = [socket.publish(f"{name}.x", str(number)) for number in range(200)]
            way.lose = 1
            receipts = await asyncio.gather(*sent)
            assert {each.seq for each in receipts} == set(range(3, 203))
            info = await read_stream.asyncio(name, client=js.api)
            assert info is not None
            assert info.state.messages == 202

    run_within(60, scenario)


def test_refusals_are_exceptions(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js, js.socket() as socket:
            await socket.publish(f"{name}.x", "1")
            with pytest.raises(sdk.PreconditionFailed) as changed:
                await socket.publish(f"{name}.x", "2", last_seq=0)
            assert changed.value.current_sequence == 1
            for kind, subject in ((sdk.Forbidden, "$SYS.x"), (sdk.BadRequest, "a..b")):
                with pytest.raises(kind):
                    await socket.publish(subject)
            with pytest.raises(sdk.NotFound) as absent:
                await anext(aiter(socket.consume(name, "ABSENT")))
            assert absent.value.kind == "consumer-not-found"
            with pytest.raises(sdk.NotFound):
                await anext(aiter(socket.tail("ABSENT")))
            with pytest.raises(sdk.Problem) as large:
                await socket.publish(f"{name}.x", b"x" * (3 << 20))
            assert large.value.status == 413
            with pytest.raises(sdk.ServerProblem) as nobody:
                await socket.request("nobody.there", within=20)
            assert nobody.value.kind == "no-responders"
            assert (await socket.request(f"{name}.x")).json()["seq"] == 2
        with pytest.raises(sdk.ConnectionLost):
            await socket.publish(f"{name}.x")

    run_within(60, scenario)


def test_an_unanswered_request_ends_after_its_timeout() -> None:
    async def scenario() -> None:
        retry = sdk.Retry(first=0.01, most=0.01, writes_for=0.05)
        async with sdk.connect("http://127.0.0.1:9", retry=retry) as js, js.socket() as socket:
            with pytest.raises(sdk.OutcomeUnknown) as unknown:
                await socket.publish("x", msg_id="m1")
            assert unknown.value.msg_id == "m1"
            assert "not connected" in str(unknown.value.__cause__)
            with pytest.raises(sdk.ConnectionLost):
                await socket.request("asked", within=1)

    run_within(60, scenario)


def test_wrong_credentials_are_refused_and_right_ones_admitted() -> None:
    async def scenario(url: str) -> None:
        async with sdk.connect(url, token="wrong") as js, js.socket() as socket:
            with pytest.raises(sdk.Unauthorized):
                await socket.publish("x")
            with pytest.raises(sdk.Unauthorized):
                await anext(aiter(socket.tail("S")))
        async with sdk.connect(url, token="s3cret") as js, js.socket() as socket:
            await js.put_stream("S", subjects=["s"])
            assert (await socket.publish("s")).seq == 1

    with JetgateServer("--auth", "s3cret", in_memory=True) as server:
        run_within(60, lambda: scenario("http://{}:{}".format(*server.http)))


def test_a_tail_goes_on_where_it_broke_and_reports_its_gap(
    way: LossyWay, url: str, name: str
) -> None:
    async def scenario() -> None:
        async with (
            stream(url, name) as js,
            sdk.connect(way.url, retry=QUICK) as client,
            client.socket() as socket,
        ):
            await js.publish(f"{name}.x", "0")
            seen: list[str] = []
            async for message in socket.tail(name, subject=f"{name}.*", begin="1"):
                if isinstance(message, sdk.Gap):
                    seen.append(f"gap behind {message.after}, on behind {message.seq}")
                    break
                seen.append(message.text())
                if len(seen) == 4:
                    way.away = True
                    way.break_connections()
                    await js.publish(f"{name}.x", "gone")
                    await purge_stream.asyncio(name, client=js.api, body=PurgeRequest())
                    way.away = False
                else:
                    if len(seen) % 2:
                        way.break_connections()
                    await js.publish(f"{name}.x", str(len(seen)))
            assert seen == ["0", "1", "2", "3", "gap behind 4, on behind 5"]

    run_within(60, scenario)


def test_a_feed_holds_no_more_than_its_credit_and_misses_nothing(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js, js.socket() as socket:
            await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(500))
            await js.put_consumer(name, "C", ack_policy="explicit")
            async with socket.consume(name, "C", credit=5) as work:
                first = await anext(aiter(work))
                for _ in range(3):  # whatever is on its way has come
                    await socket.message(name, 1)
                info = await read_consumer.asyncio(name, "C", client=js.api)
                assert info is not None
                assert 1 <= info.num_ack_pending <= 6
                await first.ack()
            async with socket.tail(name, begin="all", credit=5) as messages:
                iterator = aiter(messages)
                found = [await anext(iterator) for _ in range(500)]
            assert [each.seq for each in found] == list(range(1, 501))

    run_within(60, scenario)


def test_a_feed_holds_no_more_bytes_than_its_credit_and_misses_nothing(
    way: LossyWay, url: str, name: str
) -> None:
    async def scenario() -> None:
        large = "x" * 30_000
        async with (
            stream(url, name) as js,
            sdk.connect(way.url, retry=QUICK) as client,
            client.socket() as socket,
        ):
            await js.publish_many(sdk.Outgoing(f"{name}.x", large) for _ in range(40))
            await js.put_consumer(name, "C", ack_policy="explicit")
            async with socket.consume(name, "C", credit_bytes=100_000) as work:
                first = await anext(aiter(work))
                for _ in range(3):  # whatever is on its way has come
                    await socket.message(name, 1)
                info = await read_consumer.asyncio(name, "C", client=js.api)
                assert info is not None
                assert 1 <= info.num_ack_pending <= 5
                await first.ack()
            async with socket.tail(name, begin="all", credit_bytes=70_000) as messages:
                iterator = aiter(messages)
                found = [await anext(iterator) for _ in range(20)]
                way.break_connections()
                found += [await anext(iterator) for _ in range(20)]
            assert [each.seq for each in found] == list(range(1, 41))

    run_within(60, scenario)


def test_a_consumer_is_read_acknowledged_every_way_and_given_back(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js:
            await js.put_consumer(name, "C", ack_policy="explicit", ack_wait=3600 * 10**9)
            await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(300))
            async with js.socket() as socket:
                seen: set[str] = set()
                again = False
                async with socket.consume(name, "C") as messages:
                    async for message in messages:
                        text = message.text()
                        if text == "7" and message.delivered == 1:
                            await message.progress()
                            await message.nak()
                        elif text == "8":
                            await message.term("no use")
                        else:
                            await message.ack()
                        seen.add(text)
                        again = again or (text == "7" and message.delivered == 2)
                        if again and len(seen) == 300:
                            break
                info = await read_consumer.asyncio(name, "C", client=js.api)
                assert info is not None
                assert (info.num_ack_pending, info.num_pending) == (0, 0)
                await js.publish_many(sdk.Outgoing(f"{name}.x", str(i)) for i in range(10))
                async with socket.consume(name, "C") as messages:
                    await (await anext(aiter(messages))).ack()
            async with js.socket() as socket, socket.consume(name, "C") as messages:
                iterator = aiter(messages)
                rest = {(await anext(iterator)).text() for _ in range(9)}
            assert rest == {str(i) for i in range(1, 10)}

    run_within(60, scenario)


def test_a_core_subscription_reports_missed_messages(
    way: LossyWay, nats_url: str, name: str
) -> None:
    async def scenario() -> None:
        speaker = await nats.connect(nats_url)
        async with sdk.connect(way.url, retry=QUICK) as client, client.socket() as socket:
            subject = f"free.{name}"
            heard: list[str] = []
            speaking = asyncio.create_task(_speaks(speaker, subject))
            async for message in socket.listen(subject):
                if isinstance(message, sdk.Dropped):
                    heard.append(f"missed {message.count}")
                elif not heard or heard[-1] != "heard":
                    assert (message.text(), message.reply, message.seq) == ("x", "to.me", 0)
                    heard.append("heard")
                    way.break_connections()
                if len(heard) == 3:
                    break
            assert heard == ["heard", "missed -1", "heard"]
            speaking.cancel()
        await speaker.close()

    run_within(60, scenario)


async def _speaks(speaker: Client, subject: str) -> None:
    while True:
        await speaker.publish(subject, b"x", reply="to.me")
        await speaker.flush()


def test_a_feed_ends_with_what_it_follows(url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name) as js, js.socket() as socket:
            messages = aiter(socket.tail(name, begin="all"))
            await socket.publish(f"{name}.x")
            assert isinstance(await anext(messages), sdk.Message)
            await delete_stream.asyncio_detailed(name, client=js.api)
            with pytest.raises(sdk.NotFound):
                await anext(messages)
            await js.put_stream(name, subjects=[f"{name}.>"])

    run_within(60, scenario)


@pytest.mark.thorough
def test_everything_goes_on_over_a_kill_without_a_hole_or_a_second_time() -> None:
    """Publishes, a tail and a consumer of one socket while the server is killed and started."""

    async def scenario() -> None:
        url = "http://{}:{}".format(*server.http)
        async with asyncio.timeout(80), sdk.connect(url) as js, js.socket() as socket:
            await js.put_stream("S", subjects=["s"])
            await js.put_consumer("S", "C", ack_policy="explicit", ack_wait=5 * 10**9)
            published = 0
            reached, restarted = asyncio.Event(), asyncio.Event()

            async def publishes() -> None:
                nonlocal published
                left = _EACH_WAY
                for number in count():
                    await socket.publish("s", str(number))
                    published = number + 1
                    if published == _EACH_WAY:
                        reached.set()
                    left -= restarted.is_set()
                    if not left:
                        break
                await socket.publish("s", "end")

            async def follows() -> list[str]:
                seen: list[str] = []
                async for message in socket.tail("S", begin="all"):
                    assert isinstance(message, sdk.Message)
                    assert message.seq == len(seen) + 1
                    seen.append(message.text())
                    if seen[-1] == "end":
                        break
                return seen

            async def consumes() -> set[str]:
                seen: set[str] = set()
                async for message in socket.consume("S", "C"):
                    seen.add(message.text())
                    with suppress(sdk.OutcomeUnknown):  # it will come again
                        await message.ack()
                    if "end" in seen and len(seen) == published + 1:
                        break
                return seen

            async def restarts() -> None:
                await reached.wait()
                await asyncio.to_thread(server.restart)
                restarted.set()

            _, followed, got, _ = await asyncio.gather(
                publishes(), follows(), consumes(), restarts()
            )
            expected = [*map(str, range(published)), "end"]
            assert followed == expected
            assert got == set(expected)

    with JetgateServer(in_memory=True) as server:
        asyncio.run(scenario())
