"""Core NATS with the official client: every form of subscription, request and message."""

# Subject: protocol

import asyncio
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import (
    BadSubjectError,
    ConnectionClosedError,
    MaxPayloadError,
    NoRespondersError,
    TimeoutError,
)

from tests.clients.python.place import TIMEOUT, Place, on_both, through, until


@on_both
async def test_messages_one_by_one(place: Place) -> Any:
    nc = await place.connect()
    sub = await nc.subscribe("a.*.c", queue="")
    for i in range(3):
        await nc.publish(f"a.{i}.c", b"%d" % i)
    await nc.publish("a.c", b"not this")
    await nc.publish("a.1.2.c", b"nor this")
    await through(nc)
    assert (sub.subject, sub.queue) == ("a.*.c", "")
    assert (sub.pending_msgs, sub.pending_bytes, sub.delivered) == (3, 3, 3)
    found = [await sub.next_msg(timeout=TIMEOUT) for _ in range(3)]
    with pytest.raises(TimeoutError):
        await sub.next_msg(timeout=0.05)
    assert {msg.sid for msg in found} == {1}
    return [(msg.subject, msg.reply, msg.data, msg.header) for msg in found]


@on_both
async def test_messages_in_a_loop_up_to_a_limit(place: Place) -> Any:
    nc = await place.connect()
    sub = await nc.subscribe("loop", max_msgs=3)
    await sub.unsubscribe(limit=3)
    for i in range(5):
        await nc.publish("loop", b"%d" % i)
    await through(nc)
    return [msg.data async for msg in sub.messages]


@on_both
async def test_messages_to_a_callback_and_to_a_future(place: Place) -> Any:
    nc = await place.connect()
    seen: list[bytes] = []

    async def take(msg: Msg) -> None:
        seen.append(msg.data)

    first: asyncio.Future[Msg] = asyncio.Future()
    await nc.subscribe("cb.>", cb=take)
    await nc.subscribe("cb.b", future=first, max_msgs=1)
    for name in ("a", "b", "c"):
        await nc.publish(f"cb.{name}", name.encode())
    await until(lambda: len(seen) == 3)
    return seen, (await first).data


@on_both
async def test_a_queue_group_gets_each_message_once(place: Place) -> Any:
    nc, other = await place.connect(), await place.connect()
    workers = [await c.subscribe("work", queue="w") for c in (nc, nc, other)]
    await through(nc)
    await through(other)
    for i in range(60):
        await nc.publish("work", b"%d" % i)
    await through(nc)
    await through(other)
    counts = [worker.delivered for worker in workers]
    assert all(counts), counts
    assert workers[0].queue == "w"
    return sum(counts)


@on_both
async def test_requests_of_both_styles(place: Place) -> Any:
    nc, service = await place.connect(), await place.connect()

    async def answer(msg: Msg) -> None:
        await msg.respond(b"re: " + msg.data)

    await service.subscribe("ask", cb=answer)
    await through(service)
    new = await nc.request("ask", b"new", timeout=TIMEOUT)
    old = await nc.request("ask", b"old", timeout=TIMEOUT, old_style=True)
    told = await nc.request("ask", b"headers", timeout=TIMEOUT, headers={"A": "1"})
    for style in (False, True):
        with pytest.raises(NoRespondersError):
            await nc.request("nobody", b"", timeout=TIMEOUT, old_style=style)
    await service.subscribe("silent")
    await through(service)
    with pytest.raises(TimeoutError):
        await nc.request("silent", b"", timeout=0.05)
    return new.data, old.data, told.data, told.header


@on_both
async def test_headers_arrive_as_they_were_sent(place: Place) -> Any:
    nc = await place.connect()
    sub = await nc.subscribe("h")
    sent = {"A": "1", "b-c": "with: colon", "Empty": "", "Long": "x" * 4000, "Nats-Msg-Id": "i"}
    await nc.publish("h", b"body", reply="r.s", headers=sent)
    await nc.publish("h", b"", headers={"Only": "header"})
    await nc.publish("h", b"none")
    found = [await sub.next_msg(TIMEOUT) for _ in range(3)]
    assert found[0].header == sent
    return [(msg.reply, msg.header, msg.data) for msg in found]


@on_both
async def test_the_largest_payload(place: Place) -> Any:
    nc = await place.connect()
    sub = await nc.subscribe("big")
    body = bytes(range(256)) * (nc.max_payload // 256)
    await nc.publish("big", body)
    assert (await sub.next_msg(TIMEOUT)).data == body
    with pytest.raises(MaxPayloadError):
        await nc.publish("big", body + b"x")
    await nc.publish("big", body, headers={"A": "too much"})
    await until(lambda: nc.is_closed)
    with pytest.raises(ConnectionClosedError):
        await nc.publish("big", b"")
    return nc.max_payload, str(nc.last_error)


@on_both
async def test_a_subscription_is_drained_of_what_came(place: Place) -> Any:
    nc = await place.connect()
    seen = []

    async def slowly(msg: Msg) -> None:
        await asyncio.sleep(0.001)
        seen.append(int(msg.data))

    sub = await nc.subscribe("drain", cb=slowly)
    await through(nc)
    other = await place.connect()
    for i in range(20):
        await other.publish("drain", b"%d" % i)
    await through(other)
    await sub.drain()
    await other.publish("drain", b"99")
    await through(other)
    await through(nc)
    return seen


@on_both
async def test_a_connection_is_drained_and_ends(place: Place) -> Any:
    seen: list[int] = []
    steps: list[str] = []

    async def ended() -> None:
        steps.append("closed")

    async def lost() -> None:
        steps.append("disconnected")

    nc = await place.connect(closed_cb=ended, disconnected_cb=lost, drain_timeout=TIMEOUT)
    other = await place.connect()
    answers = await other.subscribe("done.>")
    await through(other)

    async def work(msg: Msg) -> None:
        assert nc.is_draining or nc.is_connected
        await asyncio.sleep(0)
        seen.append(int(msg.data))
        await nc.publish(f"done.{int(msg.data)}", b"")

    await nc.subscribe("jobs", cb=work)
    await through(nc)
    for i in range(50):
        await other.publish("jobs", b"%d" % i)
    await through(other)
    assert not nc.is_draining_pubs
    await nc.drain()
    assert nc.is_closed
    assert not nc.is_connected
    # The last of what was published is on its way when the client closes the connection.
    await until(lambda: answers.delivered == 50)
    return seen, steps, answers.delivered


@on_both
async def test_wrong_subjects_do_not_reach_the_server(place: Place) -> Any:
    nc = await place.connect()
    for subject in ("", "a b", "a..b", "a.>.b", "a*b.>x"):
        with pytest.raises(BadSubjectError):
            await nc.subscribe(subject)
    with pytest.raises(BadSubjectError):
        await nc.publish("a\r\nPUB x 0")
    assert (await nc.rtt(timeout=TIMEOUT)) < 20
    loose = await place.connect(skip_subject_validation=True, allow_reconnect=False)
    await loose.subscribe("a..b")
    await until(lambda: loose.is_closed or loose.last_error)
    return str(loose.last_error)


@on_both
async def test_an_inbox_is_where_answers_are_sent(place: Place) -> Any:
    nc = await place.connect(inbox_prefix="_MINE.x")
    inbox = nc.new_inbox()
    assert inbox.startswith("_MINE.x.")
    sub = await nc.subscribe(inbox)
    answering = await nc.subscribe("where")
    await nc.publish("where", b"?", reply=inbox)
    await (await answering.next_msg(TIMEOUT)).respond(b"here")
    replies = await nc.subscribe("_MINE.>")
    await nc.publish(inbox, b"again")
    assert (await replies.next_msg(TIMEOUT)).data == b"again"
    return [(await sub.next_msg(TIMEOUT)).data for _ in range(2)]


@on_both
async def test_a_slow_reader_gets_an_error_from_its_own_client(place: Place) -> Any:
    nc = await place.connect()
    few = await nc.subscribe("few", pending_msgs_limit=2)
    small = await nc.subscribe("small", pending_bytes_limit=10)
    for _ in range(4):
        await nc.publish("few", b"x")
        await nc.publish("small", b"123456")
    await through(nc)
    told = sorted(type(error).__name__ for error in place.errors)
    return few.pending_msgs, small.pending_msgs, told
