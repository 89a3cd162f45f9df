"""The client over a scripted link."""

# Subject: gateway client

import asyncio

import pytest

from core.client import (
    Client,
    ConnectionLost,
    Link,
    Msg,
    NoResponders,
    RequestTimeout,
    ServerRefused,
    connect,
)
from core.client.link import Closed, Receive
from tests.unit.client.scripted import ScriptedServer, run


async def ticks(count: int = 4) -> None:
    """Let the loop run what is due."""
    for _ in range(count):
        await asyncio.sleep(0)


def reply_to(client: Client, token: bytes, payload: bytes, headers: bytes = b"") -> bytes:
    subject = client.inbox_prefix + token
    if headers:
        sizes = (subject, len(headers), len(headers) + len(payload), headers, payload)
        return b"HMSG %s 1 %d %d\r\n%s%s\r\n" % sizes
    return b"MSG %s 1 %d\r\n%s\r\n" % (subject, len(payload), payload)


def test_connect_announces_the_features_of_the_client() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        await ticks()

        assert client.info.max_payload == 1024
        assert b'"headers":true,"no_responders":true' in server.written
        assert b"SUB " + client.inbox_prefix + b"* 1\r\n" in server.written
        await client.close()

    run(scenario())


def test_closing_ends_with_the_link() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        link, heard = server.links[0], list[Exception | None]()
        told = link.closed

        def note(exc: Exception | None) -> None:
            heard.append(exc)
            told(exc)

        link.closed = note

        await client.close()

        assert heard == [None]

    run(scenario())


def test_a_link_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.client.link._CLOSE_TIMEOUT_S", 0)

    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        link, cut = server.links[0], list[bool]()
        monkeypatch.setattr(link, "close", lambda: None)
        monkeypatch.setattr(link, "abort", lambda: cut.append(True))

        await client.close()

        assert cut == [True]

    run(scenario())


def test_a_server_may_speak_before_the_link_is_returned() -> None:
    async def scenario() -> None:
        server = ScriptedServer()

        async def eager(receive: Receive, closed: Closed) -> Link:
            link = await server.connector(receive, closed)
            await ticks()
            return link

        client = await connect(eager)
        await ticks()

        assert server.written.count(b"CONNECT ") == 1
        await client.close()

    run(scenario())


def test_a_refusal_while_connecting_is_raised() -> None:
    async def scenario() -> None:
        server = ScriptedServer(
            lambda data: b"-ERR 'Authorization Violation'\r\n" if b"CONNECT" in data else b"",
            answers_pings=False,  # no PONG after a refusal
        )
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            await connect(server.connector)

    run(scenario())


def test_publishes_of_one_tick_leave_in_one_write() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        await ticks()
        before = len(server.link.written)

        for _ in range(100):
            client.publish(b"a", b"x")
        client.publish(b"b", b"y", reply=b"r", headers=b"NATS/1.0\r\nA: b\r\n\r\n")
        await ticks()

        assert len(server.link.written) == before + 1
        expected = b"PUB a 1\r\nx\r\n" * 100 + b"HPUB b r 18 19\r\nNATS/1.0\r\nA: b\r\n\r\ny\r\n"
        assert server.link.written[-1] == expected
        await client.close()

    run(scenario())


def test_messages_are_handed_out_once_per_read() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        batches: list[list[Msg]] = []
        sub = client.subscribe(b"a", batches.append)
        line = b"MSG a %s 1\r\nx\r\n" % sub.sid

        server.link.receive(line * 3 + line[:5])
        server.link.receive(line[5:])
        sub.unsubscribe()
        server.link.receive(line)

        assert [len(batch) for batch in batches] == [3, 1]
        await client.close()

    run(scenario())


def test_requests_are_answered_by_token_and_late_answers_dropped() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        first = asyncio.ensure_future(client.request(b"a", within=30))
        second = asyncio.ensure_future(client.request(b"b", within=30))
        await ticks()

        server.link.receive(reply_to(client, b"2", b"two") + reply_to(client, b"1", b"one"))
        server.link.receive(reply_to(client, b"1", b"late"))

        assert ((await first).payload, (await second).payload) == (b"one", b"two")
        await client.close()

    run(scenario())


def test_an_unanswered_request_ends() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        with pytest.raises(RequestTimeout):
            await client.request(b"a", within=0.01)
        waiting = asyncio.ensure_future(client.request(b"a", within=30))
        await ticks()
        server.link.receive(reply_to(client, b"2", b"", b"NATS/1.0 503\r\n\r\n"))
        with pytest.raises(NoResponders):
            await waiting
        await client.close()

    run(scenario())


def test_every_request_has_a_time_of_its_own() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        long = asyncio.ensure_future(client.request(b"a", within=30))
        await ticks()
        late = [asyncio.ensure_future(client.request(b"b", within=0.02)) for _ in range(2)]
        later = asyncio.ensure_future(client.request(b"c", within=0.04))
        for waiting in (*late, later):
            with pytest.raises(RequestTimeout):
                await waiting
        server.link.receive(reply_to(client, b"1", b"answer"))
        assert (await long).payload == b"answer"
        with pytest.raises(RequestTimeout):
            await client.request(b"d", within=0.01)
        await client.close()

    run(scenario())


def test_a_batch_is_one_write_and_its_answers_are_in_order() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        await ticks()
        before = len(server.link.written)
        batch = client.request_many([b"a", b"b", b"c"], [b"1", b"2", b"3"])
        await ticks()
        assert len(server.link.written) == before + 1

        server.link.receive(
            reply_to(client, b"1-2", b"third")
            + reply_to(client, b"1-0", b"first")
            + reply_to(client, b"1-0", b"twice")
            + reply_to(client, b"1-99", b"never asked")
        )
        assert not await batch.settled(0.01)
        assert batch.payloads == [b"first", None, b"third"]

        server.link.receive(reply_to(client, b"1-1", b"too late"))
        assert batch.payloads[1] is None
        await client.close()

    run(scenario())


def test_statuses_of_a_batch_are_kept_by_position() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        batch = client.request_many([b"a", b"b"], [b"1", b"2"])
        server.link.receive(
            reply_to(client, b"1-0", b"ok") + reply_to(client, b"1-1", b"", b"NATS/1.0 503\r\n\r\n")
        )
        assert await batch.settled(1)
        assert batch.statuses == {1: 503}
        await client.close()

    run(scenario())


def test_a_lost_link_ends_what_waits_and_comes_back() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        client.subscribe(b"kept", lambda batch: None, queue=b"q")
        waiting = asyncio.ensure_future(client.request(b"a", within=30))
        batch = client.request_many([b"a"], [b"1"])
        await ticks()
        server.refusals = 1

        server.link.close()

        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectionLost):
            await batch.settled(1)
        with pytest.raises(ConnectionLost):
            client.publish(b"a", b"")
        async with asyncio.timeout(30):
            await client.wait_connected()
        await client.flush()
        assert b"SUB kept q 2\r\n" in server.written
        await client.close()

    run(scenario())


def test_a_retired_subscription_still_gets_what_was_under_way() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        got: list[Msg] = []
        sub = client.subscribe(b"a", got.extend)
        late = b"MSG a %s 1\r\nx\r\n" % sub.sid
        server.answers_pings = False  # but after what is late, not before it
        server.script = lambda data: (
            (late if b"UNSUB" in data else b"") + b"PONG\r\n" * data.count(b"PING")
        )

        await client.drain_subscription(sub)
        server.link.receive(late)

        assert len(got) == 1
        await client.close()

    run(scenario())


def test_nonsense_from_the_server_closes_the_link() -> None:
    async def scenario() -> None:
        server = ScriptedServer()
        client = await connect(server.connector)
        server.link.receive(b"WHAT IS THIS\r\n")
        await ticks()

        assert server.links[0].is_closed
        await client.close()

    run(scenario())
