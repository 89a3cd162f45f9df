"""What a stream delivers by itself, push consumers and republishing, to clients of other nodes than
the one that leads it: after a step-down, and after that one was killed or stood still.
"""

# Subject: several nodes

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from nats.aio.msg import Msg

from tests.support.eventually import eventually, observed
from tests.support.jetgate import JetgateServer
from tests.support.node_clients import PATIENT, UNAVAILABLE, At, at_each, run
from tests.support.nodes import Nodes, leader_of, send
from tests.support.push_readers import KINDS, Reader, flowing, is_status
from tests.support.wire import Closed, Silence, Wire

SECOND = 1_000_000_000


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


async def nothing_pending(at: At, reader: Reader) -> None:
    """Return when the consumers of a reader's stream wait for no acknowledgement."""

    async def look() -> bool:
        found = await at.done(f"CONSUMER.LIST.{reader.stream}", {})
        return all(each["num_ack_pending"] == 0 for each in found["consumers"])

    await observed(look, within=60)


@pytest.mark.parametrize("kind", KINDS)
def test_a_push_consumer_goes_on_where_its_subscriber_is_when_its_stream_steps_down(
    nodes: Nodes, kind: str
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        name = f"STEP-{kind}"
        await one.stream(name)
        await one.move(name, one.name)
        reader = Reader(kind, name)
        await reader.begin(*((two, three) if kind == "group" else (two,)))
        sent = numbered(0, 90)

        async def publish() -> None:
            for body in sent:
                await three.store(f"{name}.a", body)

        async def move() -> None:
            for number, to in ((20, three), (40, one), (60, two)):
                await observed(lambda number=number: len(reader.got) >= number, within=60)  # type: ignore[misc]
                await two.move(name, to.name)

        await asyncio.gather(publish(), move())
        await observed(lambda: reader.has(sent), within=60)
        await nothing_pending(one, reader)
        if kind == "group":  # its members read at the same time
            assert sorted(reader.got, key=int) == sent
        else:
            assert reader.got == sent

    run(nodes, scenario)


def test_push_consumers_go_on_after_kill_9_of_the_leader_without_redelivering_acknowledged_messages(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        republish = {"src": "KILL.>", "dest": "killed.>", "headers_only": True}
        await one.stream("KILL", republish=republish)
        await one.keep("KILL")
        copies = [await at.client.subscribe("killed.>") for at in (two, three)]
        readers = [Reader(kind, "KILL", leaves=b"7" if kind == "plain" else b"") for kind in KINDS]
        for reader in readers:
            await reader.begin(*((two, three) if reader.kind == "group" else (two,)))
        first, later = numbered(0, 20), numbered(20, 80)
        for body in first:
            await three.store("KILL.a", body)
        await observed(lambda: all(reader.has(first) for reader in readers), within=60)
        before = {reader: (len(reader.got), {*reader.acked}) for reader in readers}

        async def publish() -> None:
            for body in later:
                await three.store("KILL.a", body)

        async def kill() -> None:
            await observed(lambda: len(readers[0].got) > 35, within=60)
            one.node.kill()

        await asyncio.gather(publish(), kill())
        await observed(lambda: all(reader.has(first + later) for reader in readers), within=60)
        for reader in readers:
            count, acked = before[reader]
            assert acked.isdisjoint(reader.got[count:]), reader.kind
        plain, _, ordered, _ = readers
        assert ordered.got == first + later
        await observed(lambda: plain.got.count(b"7") > 1, within=60)
        for copy in copies:
            while True:  # until the last one: there was time enough to know who listens
                headers = (await copy.next_msg(timeout=PATIENT)).headers or {}
                if headers["Nats-Sequence"] == str(len(first + later)):
                    break
            assert headers["Nats-Msg-Size"] == "2"

    run(nodes, scenario)


def test_flow_control_and_heartbeats_go_between_the_leader_and_the_node_of_the_subscriber(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("FLOW")
        await one.keep("FLOW")
        bodies: list[Msg] = []
        asked: list[Msg] = []
        beats: list[dict[str, str]] = []

        async def take(message: Msg) -> None:
            if not is_status(message):
                bodies.append(message)
            elif message.reply:
                asked.append(message)
            else:
                beats.append(dict(message.headers or {}))

        inbox = two.client.new_inbox()
        await two.client.subscribe(inbox, cb=take)
        count, body = 80, bytes(64 * 1024)  # five megabytes: more than is sent without an answer
        for number in range(count):
            await three.js.publish(f"FLOW.{number}", body)
        await three.done("CONSUMER.CREATE.FLOW.F", flowing("FLOW", inbox, ack_policy="none"))
        await observed(lambda: any("Nats-Consumer-Stalled" in beat for beat in beats), within=30)
        assert len(asked) == 1
        assert len(bodies) < count / 2

        answered = 0
        while len(bodies) < count:
            await observed(lambda: len(asked) > answered or len(bodies) == count, within=30)  # noqa: B023
            for message in asked[answered:]:
                await message.respond(b"")
            answered = len(asked)
        assert [message.subject for message in bodies] == [f"FLOW.{n}" for n in range(count)]
        for leader in (three, one):
            await two.move("FLOW", leader.name)
            beats.clear()
            await observed(lambda: beats, within=30)
            assert beats[0]["Nats-Last-Stream"] == str(count)
        assert len(bodies) == count

    run(nodes, scenario)


def test_subjects_and_names_with_an_at_sign_are_whole_at_every_node(nodes: Nodes) -> None:
    """Behind such a sign nodes tell each other the subject of what is delivered."""

    async def scenario(one: At, two: At, three: At) -> None:
        await one.stream("AT@home", subjects=["mail.>"])
        await one.keep("AT@home")
        subjects = ["mail.ann@home.com", "mail.@", "mail.a"] * 20
        for number, subject in enumerate(subjects):
            headers = {"Number": str(number)} if number % 7 == 0 else None
            await three.js.publish(subject, b"%d" % number, headers=headers)
        for at in (one, two, three):
            name = f"c@{at.name}"
            pulled = await at.js.pull_subscribe("mail.>", name, stream="AT@home")
            got: list[Msg] = []
            while len(got) < len(subjects):
                got += await pulled.fetch(len(subjects) - len(got), timeout=PATIENT)
            assert [message.subject for message in got] == subjects
            pushed = await at.js.subscribe("mail.>", stream="AT@home", ordered_consumer=True)
            assert [(await pushed.next_msg(PATIENT)).subject for _ in subjects] == subjects
            await asyncio.gather(*(at.acknowledge(message) for message in got))
            info = await at.done(f"CONSUMER.INFO.AT@home.{name}")
            assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)

    run(nodes, scenario)


@asynccontextmanager
async def republished(*subscribers: At) -> AsyncIterator[list[list[Msg]]]:
    """What each gets of `out.>`, from the moment when all nodes know that they listen."""
    found: list[list[Msg]] = []
    for at in subscribers:
        got: list[Msg] = []

        async def note(message: Msg, got: list[Msg] = got) -> None:
            got.append(message)

        await at.client.subscribe("out.>", cb=note)
        found.append(got)
    for at in subscribers:
        for other in subscribers:
            await at.hears(other)
    yield found


def test_republished_messages_come_once_to_subscribers_of_every_node(
    nodes: Nodes,
) -> None:
    async def scenario(one: At, two: At, three: At) -> None:
        everywhere = (one, two, three)
        await one.stream("REP", republish={"src": "REP.*", "dest": "out.{{wildcard(1)}}"})
        await two.stream("KEPT", subjects=["out.>"])
        async with republished(*everywhere) as found:
            subjects = []
            for leader in everywhere:
                await two.move("REP", leader.name)
                await one.move("KEPT", two.name)
                for at in everywhere:
                    for subject in ("REP.a", "REP.b"):
                        subjects.append(subject)
                        body = b"%d" % len(subjects)
                        assert await at.store(subject, body, Kind="new") == len(subjects)
            count = len(subjects)
            await observed(lambda: all(len(got) == count for got in found), within=60)
            # What came twice would have come before this.
            await three.store("REP.last", b"last")
            await observed(lambda: all(len(got) > count for got in found), within=60)
            for got in found:
                assert [message.data for message in got] == [*numbered(1, count + 1), b"last"]
                for seq, (subject, message) in enumerate(zip(subjects, got, strict=False), 1):
                    assert message.subject == subject.replace("REP", "out")
                    headers = dict(message.headers or {})
                    assert headers.pop("Nats-Time-Stamp")
                    assert headers == {
                        "Kind": "new",
                        "Nats-Msg-Id": f"{subject} {seq}",
                        "Nats-Stream": "REP",
                        "Nats-Subject": subject,
                        "Nats-Sequence": str(seq),
                        "Nats-Last-Sequence": str(max(seq - 2, 0)),
                    }
            await one.holds("KEPT", count + 1)

    run(nodes, scenario)


@asynccontextmanager
async def publishing(*publishers: At, stream: str) -> AsyncIterator[dict[int, bytes]]:
    """What was stored by the sequences that publishers were told, until the block ends."""
    told: dict[int, bytes] = {}
    is_over = False

    async def publish(at: At, name: str) -> None:
        number = 0
        while not is_over:
            body = b"%b %d" % (name.encode(), number)
            seq = await at.store(f"{stream}.a", body)
            assert seq not in told, (seq, body, told[seq])
            told[seq] = body
            number += 1

    async with asyncio.TaskGroup() as group:
        for number, at in enumerate(publishers):
            group.create_task(publish(at, f"publisher {number}"))
        yield told
        is_over = True


def leader_told(node: JetgateServer, stream: str) -> str:
    """Who leads a stream, as a node says to a client that has just connected; "": it does not."""
    with suppress(OSError, Closed, Silence), Wire(node.address, timeout=2) as wire:
        wire.hello()
        told = wire.api(f"STREAM.INFO.{stream}").get("cluster", {})
        return str(told.get("leader", ""))
    return ""


async def bodies(at: At, stream: str) -> dict[int, bytes]:
    """What a stream has, by sequence."""
    reader = await at.js.subscribe(f"{stream}.>", stream=stream, ordered_consumer=True)
    found = {}
    for _ in range((await at.info(stream))["state"]["messages"]):
        message = await reader.next_msg(timeout=PATIENT)
        found[message.metadata.sequence.stream] = message.data
    await reader.unsubscribe()
    return found


async def consume(at: At, stream: str) -> None:
    """Create a pull consumer C, and a push consumer P with one message at a time."""
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 600 * SECOND}
    await at.done(f"CONSUMER.CREATE.{stream}.C", {"stream_name": stream, "config": config})
    pushed = {"durable_name": "P", "deliver_subject": f"{stream}-pushed", "max_ack_pending": 1}
    config = {**config, **pushed, "ack_wait": SECOND}
    await at.done(f"CONSUMER.CREATE.{stream}.P", {"stream_name": stream, "config": config})


async def ask_everything(at: At, stream: str, pushed: Msg, to: str) -> None:
    """Send what a leader does at once; the node reads it when it goes on."""
    request = json.dumps({"batch": 100, "expires": 60 * SECOND}).encode()
    asked: list[tuple[str, bytes, str, dict[str, str] | None]] = [
        (f"$JS.API.CONSUMER.MSG.NEXT.{stream}.C", request, "pull", None),
        (pushed.reply, b"+ACK", "ack", None),
        (f"$JS.API.STREAM.INFO.{stream}", b"", "info", None),
        (f"{stream}.a", b"late", "late", {"Nats-Msg-Id": f"{stream}.a late"}),
    ]
    for subject, body, kind, headers in asked:
        await at.client.publish(subject, body, reply=f"{to}.{kind}", headers=headers)
    await observed(lambda: not at.client.pending_data_size)


def check_heard(heard: list[Msg], inbox: str, former: str, late: int) -> None:
    """Nothing was told by a leader that is none, and what was stored is what was told."""
    for message in heard:
        kind = message.subject.removeprefix(f"{inbox}.")
        body = message.data
        match kind:
            case "pull":
                # Messages of the pull are those that nobody had yet.
                assert not body.startswith(b"before"), body
            case "info":
                found = json.loads(body)
                assert found.get("cluster", {}).get("leader") != former, found
            case "late":
                answer = json.loads(body) if body else {}
                if answer.get("error", {}).get("err_code") != UNAVAILABLE:  # it leads no more
                    assert answer.get("seq", late) == late, answer


def test_a_leader_that_stood_still_does_nothing_as_leader_and_serves_through_the_next(
    nodes: Nodes,
) -> None:
    async def stalled(one: At, two: At, three: At) -> None:
        name = "STALL"
        await one.stream(name)
        await one.keep(name)
        for number in range(5):
            await three.store(f"{name}.a", b"before %d" % number)
        await consume(three, name)
        heard: list[Msg] = []
        inbox = one.client.new_inbox()

        async def hear(message: Msg) -> None:
            heard.append(message)

        for subject in (f"{inbox}.>", f"{name}-pushed"):
            await one.client.subscribe(subject, cb=hear)
        await observed(lambda: heard)

        async with publishing(two, three, stream=name) as told:
            await observed(lambda: len(told) > 20)
            send(one.node, signal.SIGSTOP)
            heir = await asyncio.to_thread(leader_of, [two.node, three.node], name)
            reader = await two.js.pull_subscribe_bind("C", name)
            for message in await reader.fetch(5, timeout=PATIENT):
                assert message.data.startswith(b"before ")
                await two.acknowledge(message)
            await ask_everything(one, name, heard[0], inbox)
            send(one.node, signal.SIGCONT)
            now = two.name if heir is two.node else three.name
            await asyncio.to_thread(eventually, lambda: leader_told(one.node, name) == now)
            # What its clients have sent meanwhile they may have sent to others since.
            await observed(lambda: one.client.is_closed, within=60)
            count = len(told)
            await observed(lambda: len(told) > count + 20, within=60)

        async with at_each(nodes) as (again, *_):
            late = await again.store(f"{name}.a", b"late")
            told[late] = b"late"
            check_heard(heard[1:], inbox, one.name, late)
            stored = await bodies(again, name)
            assert told.items() <= stored.items()
            assert len({*stored.values()}) == len(stored)
            pushed = await again.client.subscribe(f"{name}-pushed")
            assert (await pushed.next_msg(timeout=PATIENT)).data in (b"before 0", b"before 1")
            info = await again.done(f"CONSUMER.INFO.{name}.C")
            assert info["ack_floor"]["stream_seq"] == 5

    async def scenario(one: At, two: At, three: At) -> None:
        try:
            await stalled(one, two, three)
        finally:
            send(one.node, signal.SIGCONT)

    run(nodes, scenario)
