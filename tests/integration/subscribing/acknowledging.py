"""Rows about the subjects of acknowledgements and the acknowledgements."""

import pytest

from core.client import ConnectionLost
from core.client.subscribe import FetchOptions, JsMsg, NotJetStream, pull
from core.model.consumer import AckPolicy, ConsumerInfo
from tests.integration.subscribing.table import Desk, row, taken, until

JSACK = "JSAck"
TOKENS = "Token Version 1 and 2"
ACKS = "Ack Handling"


async def pending(desk: Desk, consumer: str, number: int, floor: int) -> ConsumerInfo:
    """The consumer when so many are pending and the floor is there."""

    async def look() -> ConsumerInfo | None:
        info = await desk.info(consumer)
        assert info is not None
        is_so = info.num_ack_pending == number and info.ack_floor.stream_seq == floor
        return info if is_so else None

    found: ConsumerInfo = await until(look)
    return found


@row(JSACK, "only a message whose reply is an ack subject is one of JetStream")
async def no_ack_subject(desk: Desk) -> None:
    sub = await desk.push()
    for reply in (b"", b"_INBOX.x", b"$JS.ACKS.S.C.1.1.1.1.0", b"$JS.FC.S.x"):
        await desk.send(sub, reply, body=b"boo")
    await desk.fill(1)
    assert [m.payload for m in await taken(sub, 1)] == [b"x"]
    assert [type(alarm) for alarm in desk.alarms] == [NotJetStream] * 4


@row(JSACK, "acknowledgements are published to the ack subject as it is")
async def published_as_it_is(desk: Desk) -> None:
    sub = await desk.push()
    acks = await desk.listen("$JS.ACK.>")
    reply = b"$JS.ACK._.hash.S.C.1.1.1.12345.0.rnd.more"
    await desk.send(sub, reply)
    sub.ack(await taken(sub, 1))
    await desk.flush()
    assert [msg.subject for msg in acks] == [reply]


@row(JSACK, "the delivery's stream, consumer and sequences are read from it")
async def metadata(desk: Desk) -> None:
    await desk.fill(3)
    async with await pull(desk.js, desk.target(durable="D")) as sub:
        messages = await sub.fetch(FetchOptions(2, expires=30))
        last = messages[-1]
        assert (last.stream, last.consumer, last.domain) == (desk.name, "D", "")
        assert (last.delivered, last.stream_seq, last.consumer_seq, last.pending) == (1, 2, 2, 1)
        sub.nak(messages[:1])
        # The third message may overtake the one that is asked for again.
        others = await sub.fetch(FetchOptions(2, expires=30))
        (again,) = [msg for msg in others if msg.stream_seq == 1]
        assert (again.delivered, again.consumer_seq in (3, 4)) == (2, True)
        info = await desk.other.stream_info(desk.name)
        assert info.created <= again.time <= info.ts


@row(TOKENS, "9, 11 and more tokens are read, whatever is appended to 11")
async def nine_eleven_and_more(desk: Desk) -> None:
    sub = await desk.push()
    for reply in (
        b"$JS.ACK.S.C.2.7.1.1700000000000000000.3",
        b"$JS.ACK.hub.ACC.S.C.2.8.2.1700000000000000000.4",
        b"$JS.ACK._.ACC.S.C.2.9.3.1700000000000000000.5.rnd",
        b"$JS.ACK._.ACC.S.C.2.10.4.1700000000000000000.6.rnd.and.more",
    ):
        await desk.send(sub, reply)
    messages = await taken(sub, 4)
    assert [(m.stream, m.consumer, m.delivered) for m in messages] == [("S", "C", 2)] * 4
    assert [(m.stream_seq, m.consumer_seq, m.pending) for m in messages] == [
        (7, 1, 3),
        (8, 2, 4),
        (9, 3, 5),
        (10, 4, 6),
    ]
    assert {m.time for m in messages} == {1_700_000_000_000_000_000}
    assert desk.alarms == []


@row(TOKENS, "the domain `_` is shown as none")
async def domains(desk: Desk) -> None:
    sub = await desk.push()
    await desk.send(sub, b"$JS.ACK.hub.ACC.S.C.1.1.1.1.0")
    await desk.send(sub, b"$JS.ACK._.ACC.S.C.1.2.2.1.0")
    assert [m.domain for m in await taken(sub, 2)] == ["hub", ""]


@row(TOKENS, "other numbers of tokens, and tokens that are no numbers, are errors")
async def malformed(desk: Desk) -> None:
    sub = await desk.push()
    replies = (
        b"$JS.ACK.S.C.1.1.1.1",
        b"$JS.ACK.S.C.1.1.1.1.0.x",
        b"$JS.ACK.S.C.one.1.1.1.0",
        b"$JS.ACK.S.C.1.1.-1.1.0",
        b"$JS.ACK._.ACC.S.C.1.1.1.1.none",
    )
    for reply in replies:
        await desk.send(sub, reply)
    await desk.fill(1)
    await taken(sub, 1)
    assert [str(alarm) for alarm in desk.alarms] == [str(NotJetStream(each)) for each in replies]


@row(ACKS, "+ACK, -NAK, +TERM and +WPI are sent")
async def every_kind(desk: Desk) -> None:
    await desk.fill(4)
    sub = await desk.push(config={"ack_wait": 60_000_000_000})
    acks = await desk.listen("$JS.ACK.>")
    one, two, three, four = await taken(sub, 4)
    sub.ack([one])
    sub.nak([two], delay=60)
    sub.term([three], "never")
    sub.progress([four])
    await desk.flush()
    bodies = [b"+ACK", b'-NAK {"delay":60000000000}', b"+TERM never", b"+WPI"]
    await until(lambda: [msg.payload for msg in acks] == bodies)
    await pending(desk, sub.consumer, 2, 1)


@row(ACKS, "after a terminal one every other is ignored, without an error")
async def after_a_terminal_one(desk: Desk) -> None:
    await desk.fill(4)
    sub = await desk.push()
    acks = await desk.listen("$JS.ACK.>")
    one, two, three, four = await taken(sub, 4)
    sub.ack([one])
    sub.nak([two], delay=60)
    sub.term([three])
    sub.progress([four])
    for msg in (one, two, three):
        sub.progress([msg])
        sub.nak([msg])
        sub.term([msg])
        sub.ack([msg])
        assert await sub.ack_sync([msg]) == []
    sub.ack([four])
    await desk.flush()
    bodies = [b"+ACK", b'-NAK {"delay":60000000000}', b"+TERM", b"+WPI", b"+ACK"]
    await until(lambda: [msg.payload for msg in acks] == bodies)


@row(ACKS, "with policy none all are ignored")
async def with_policy_none(desk: Desk) -> None:
    await desk.fill(1)
    sub = await desk.push(config={"ack_policy": AckPolicy.NONE})
    acks = await desk.listen("$JS.ACK.>")
    messages = await taken(sub, 1)
    for send in (sub.ack, sub.nak, sub.term, sub.progress):
        send(messages)
    assert await sub.ack_sync(messages) == []
    await desk.flush()
    assert acks == []


@row(ACKS, "only publishing one can fail, and then another may be sent")
async def that_cannot_be_published(desk: Desk) -> None:
    await desk.fill(1)
    sub = await desk.push(durable="D")
    messages: list[JsMsg] = await taken(sub, 1)
    desk.client.connected = False
    for send in (sub.ack, sub.nak, sub.term, sub.progress):
        with pytest.raises(ConnectionLost):
            send(messages)
    desk.client.connected = True
    assert await sub.ack_sync(messages) == []
    await pending(desk, "D", 0, 1)


@row(ACKS, "the server's word can be waited for (double ack)")
async def double_acks(desk: Desk) -> None:
    await desk.fill(600)
    async with await pull(desk.js, desk.target()) as sub:
        messages = await sub.fetch(FetchOptions(600, expires=30))
        assert await sub.ack_sync(messages) == []
        info = await desk.info(sub.consumer)
        assert info is not None
        assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 600)
