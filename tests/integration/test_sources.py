"""Streams with sources, on both servers."""

# Subject: mirrors and sources

import asyncio
import re
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from core.model.names import short_hash
from tests.gateway.web import Web
from tests.integration.test_ttl import ask
from tests.support.copies import Copies, Copy, copies
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.node import Wire, running_node
from tests.support.pg import PostgresServer

Server = JetgateServer | NatsServer
_HEADER = re.compile(rb"Nats-Stream-Source: ([^\r]+)\r\n")


def _source(message: Copy) -> list[str]:
    """The fields of a message's `Nats-Stream-Source`; the last, the origin's identity, varies."""
    found = _HEADER.search(message.headers)
    assert found is not None, message.headers
    fields = found[1].decode().split(" ")
    assert re.fullmatch("[0-9A-Za-z]{8}", fields[5])
    return fields[:5]


def test_several_origins_flow_together(server: Server) -> None:
    async def test(at: Copies) -> None:
        for short in "ST":
            await at.stream(short)
            await at.publish(short, "a", "b")

        await at.stream("A", sources=[{"name": at.name("S")}, {"name": at.name("T")}])

        await at.reaches("A", 4)
        await at.publish("T", "c")
        await at.reaches("A", 5)
        found = [_source(m) for m in await at.messages("A")]
        for short, seqs in (("S", "12"), ("T", "123")):
            mine = [fields for fields in found if fields[0] == at.name(short)]
            tails = dict(zip("123", "abc", strict=True))
            assert mine == [
                [at.name(short), seq, ">", ">", at.subject(short, tails[seq])] for seq in seqs
            ]
        infos = {info["name"]: info for info in (await at.info("A"))["sources"]}
        assert (infos[at.name("S")]["seq"], infos[at.name("T")]["seq"]) == (2, 3)

    copies(server, test)


def test_headers_of_the_origin_are_kept_but_for_its_own(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        headers = {"Nats-Msg-Id": "i", "Nats-Expected-Last-Sequence": "0", "X": "1"}
        await at.publish("S", "a", headers=headers)
        await at.stream("A", sources=[{"name": at.name("S")}])
        await at.stream("B", sources=[{"name": at.name("A")}])

        await at.reaches("B", 1)

        (first,), (second,) = await at.messages("A"), await at.messages("B")
        assert first.headers.startswith(b"NATS/1.0\r\nNats-Msg-Id: i\r\nX: 1\r\nNats-Stream-Source")
        assert second.headers.count(b"Nats-Stream-Source") == 1
        assert _source(second)[:2] == [at.name("A"), "1"]
        assert second.headers.startswith(b"NATS/1.0\r\nNats-Msg-Id: i\r\nX: 1\r\n")

    copies(server, test)


def test_filters_and_transforms_of_a_source(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a.1", "b.1", "c.1")
        a, b = at.subject("S", "a.*"), at.subject("S", "b.*")
        transforms = [{"src": a, "dest": "mapped.$1"}, {"src": b, "dest": ""}]

        await at.stream("F", sources=[{"name": at.name("S"), "filter_subject": b}])
        await at.stream("T", sources=[{"name": at.name("S"), "subject_transforms": transforms}])

        await at.reaches("F", 1)
        await at.reaches("T", 2)
        (filtered,) = await at.messages("F")
        assert _source(filtered) == [at.name("S"), "2", b, ">", at.subject("S", "b.1")]
        mapped = await at.messages("T")
        assert [m.subject for m in mapped] == ["mapped.1", at.subject("S", "b.1")]
        assert _source(mapped[0])[2:4] == [f"{a}\f{b}", "mapped.$1\f>"]
        (info,) = (await at.info("T"))["sources"]
        assert info["subject_transforms"] == transforms

    copies(server, test)


@pytest.mark.parametrize(
    "dest", ["p.{{partition(3, 1)}}", "p.{{ wildcard( 1 ) }}", "p.{{split(1, _)}}"]
)
@pytest.mark.parametrize("kind", ["mirror", "source", "updated source"])
def test_blanks_in_a_destination(server: Server, kind: str, dest: str) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a_1")
        (transform,) = transforms = [{"src": at.subject("S", "*"), "dest": dest}]
        origin = {"name": at.name("S"), "subject_transforms": transforms}
        if kind == "mirror":
            await at.stream("T", mirror=origin)
        elif kind == "source":
            await at.stream("T", sources=[origin])
        else:
            await at.stream("T", sources=[{"name": at.name("S")}])
            await at.reaches("T", 1)
            name = at.name("T")
            await at.api(f"STREAM.UPDATE.{name}", {"name": name, "sources": [origin]})
            await at.publish("S", "b_1")

        await at.reaches("T", 2 if kind == "updated source" else 1)
        *_, last = await at.messages("T")
        assert last.subject.startswith("p.")
        if kind != "mirror":
            assert _source(last)[2:4] == [transform["src"], dest.partition(" ")[0]]

    copies(server, test)


def test_a_stream_with_sources_may_be_published_into(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        sources = [{"name": at.name("S")}]
        await at.stream("A", subjects=[at.subject("A", ">")], sources=sources)
        await at.reaches("A", 1)

        assert await at.publish("A", "own") == [2]
        await at.publish("S", "b")

        await at.reaches("A", 3)
        subjects = [m.subject for m in await at.messages("A")]
        assert subjects == [at.subject("S", "a"), at.subject("A", "own"), at.subject("S", "b")]

    copies(server, test)


def test_ids_count_only_within_a_window(server: Server) -> None:
    async def test(at: Copies) -> None:
        for short in "ST":
            await at.stream(short)
            await at.publish(short, "a", headers={"Nats-Msg-Id": "same"})
            await at.publish(short, "b")
        sources = [{"name": at.name(short)} for short in "ST"]

        await at.stream("A", sources=sources)
        await at.stream("W", sources=sources, duplicate_window=60_000_000_000)

        await at.reaches("A", 4)
        await at.reaches("W", 3)
        ids = [b"Nats-Msg-Id: same" in m.headers for m in await at.messages("W")]
        assert sorted(ids) == [False, False, True]

    copies(server, test)


@pytest.mark.parametrize("by_time", [False, True])
def test_a_source_may_start_later(server: Server, by_time: bool) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abcde")
        third = (await at.messages("S"))[2]
        start: dict[str, Any] = {"opt_start_time": third.time} if by_time else {"opt_start_seq": 3}

        await at.stream("A", sources=[{"name": at.name("S"), **start}])

        await at.reaches("A", 3)
        assert [m.data for m in await at.messages("A")] == [b"c", b"d", b"e"]

    copies(server, test)


def test_a_work_queue_flows_into_its_copy(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", retention="workqueue")
        await at.publish("S", *"abc")

        await at.stream("A", sources=[{"name": at.name("S")}])

        await at.reaches("A", 3)
        await at.empties("S")
        await at.publish("S", "d")
        await at.reaches("A", 4)
        await at.empties("S")
        (consumer,) = (await at.api(f"CONSUMER.LIST.{at.name('S')}", {}))["consumers"]
        config = consumer["config"]
        assert (config["ack_policy"], config["max_deliver"]) == ("flow_control", -1)
        assert config["metadata"]["_nats.src.stream"] == at.name("A")
        assert consumer["name"].startswith("JS_SRC_")

    copies(server, test)


def test_hidden_consumers_do_not_show(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        await at.stream("A", sources=[{"name": at.name("S")}])
        await at.reaches("A", 1)

        assert (await at.api(f"CONSUMER.NAMES.{at.name('S')}"))["consumers"] == []
        assert (await at.api(f"CONSUMER.LIST.{at.name('S')}", {}))["consumers"] == []
        assert (await at.info("S"))["state"]["consumer_count"] == 0

    copies(server, test)


def test_sources_come_and_go(server: Server) -> None:
    async def test(at: Copies) -> None:
        for short in "ST":
            await at.stream(short)
            await at.publish(short, "a", "b")
        first = {"name": at.name("S")}
        second = {"name": at.name("T"), "filter_subject": at.subject("T", "b")}
        await at.stream("A", sources=[first])
        await at.reaches("A", 2)
        update = f"STREAM.UPDATE.{at.name('A')}"

        await at.api(update, {"name": at.name("A"), "sources": [first, second]})
        await at.reaches("A", 3)
        await at.api(update, {"name": at.name("A"), "sources": [second]})
        await at.publish("S", "c")
        await at.publish("T", "b")
        await at.reaches("A", 4)
        assert [_source(m)[:2] for m in await at.messages("A")][2:] == [
            [at.name("T"), "2"],
            [at.name("T"), "3"],
        ]
        # The first goes on where it was.
        await at.api(update, {"name": at.name("A"), "sources": [second, first]})
        await at.reaches("A", 5)
        assert [_source(m)[:2] for m in await at.messages("A")][4:] == [[at.name("S"), "3"]]

    copies(server, test)


def test_without_sources_a_stream_has_its_name_for_a_subject(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.stream("A", sources=[{"name": at.name("S")}])
        with pytest.raises(NoRespondersError):
            await at.client.request(at.name("A"), b"", timeout=30)

        reply = await at.api(f"STREAM.UPDATE.{at.name('A')}", {"name": at.name("A")})

        assert reply["config"]["subjects"] == [at.name("A")]
        assert "sources" not in reply

    copies(server, test)


def test_an_origin_made_anew_is_copied_from_its_beginning(jetgate_server: JetgateServer) -> None:
    """The reference server does the same after ten seconds of silence."""

    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abc")
        await at.stream("A", sources=[{"name": at.name("S")}])
        await at.reaches("A", 3)

        await at.api(f"STREAM.DELETE.{at.name('S')}")
        await at.stream("S")
        await at.publish("S", "new")

        await at.reaches("A", 4, within=60)
        found = await at.messages("A")
        assert [_source(m)[1] for m in found] == ["1", "2", "3", "1"]
        assert found[3].data == b"new"

    copies(jetgate_server, test)


def test_a_copy_of_a_copy_goes_on_as_the_copy_was(server: Server) -> None:
    """A mirror that is promoted with the sources of its origin continues where that stood."""

    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abc")
        sources = [{"name": at.name("S")}]
        await at.stream("A", sources=sources)
        await at.stream("M", mirror={"name": at.name("A")})
        await at.reaches("M", 3)

        await at.api(f"STREAM.UPDATE.{at.name('M')}", {"name": at.name("M"), "sources": sources})
        await at.publish("S", "d")

        await at.reaches("M", 4)
        assert [_source(m)[1] for m in await at.messages("M")] == ["1", "2", "3", "4"]

    copies(server, test)


def test_a_mirror_may_become_a_stream_with_its_origin_as_a_source(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.reaches("M", 1)
        sources = [{"name": at.name("S")}]

        await at.api(f"STREAM.UPDATE.{at.name('M')}", {"name": at.name("M"), "sources": sources})
        await at.publish("S", "b")

        # A mirror's messages do not tell where they come from: the source begins anew.
        await at.reaches("M", 3)
        first, *sourced = await at.messages("M")
        assert first.headers == b""
        assert [_source(m)[:2] for m in sourced] == [[at.name("S"), "1"], [at.name("S"), "2"]]

    copies(server, test)


def test_a_consumer_made_beforehand_is_used(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a", "b", "c")
        config = {
            "durable_name": "copies",
            "ack_policy": "flow_control",
            "deliver_subject": at.subject("A", "deliver"),
            "filter_subject": at.subject("S", "b"),
            "deliver_policy": "last_per_subject",
        }
        name = at.name("S")
        await at.api(f"CONSUMER.CREATE.{name}.copies", {"stream_name": name, "config": config})
        consumer = {"name": "copies", "deliver_subject": at.subject("A", "deliver")}

        await at.stream("A", sources=[{"name": name, "consumer": consumer}])

        await at.reaches("A", 1)
        await at.publish("S", "b")
        await at.reaches("A", 2)
        found = [_source(m)[:2] for m in await at.messages("A")]
        origin = f"{name}:C={short_hash('copies').decode()}"
        assert found == [[origin, "2"], [origin, "4"]]

    copies(server, test)


def test_a_consumer_that_does_not_fit_is_reported(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        name = at.name("S")
        deliver = at.subject("A", "deliver")
        config = {"durable_name": "plain", "ack_policy": "none", "deliver_subject": deliver}
        await at.api(f"CONSUMER.CREATE.{name}.plain", {"stream_name": name, "config": config})
        consumer = {"name": "plain", "deliver_subject": deliver}
        await at.stream("A", sources=[{"name": name, "consumer": consumer}])

        async def look() -> Any:
            return (await at.info("A"))["sources"][0].get("error")

        assert (await at.sees(look))["err_code"] == 10217

    copies(server, test)


def test_an_origin_behind_a_prefix_is_asked_there(server: Server) -> None:
    """A client hands requests below a prefix on, as a bridge to another system would."""

    async def test(at: Copies) -> None:
        api, deliver = f"$JS.{at.name('far')}.API", at.name("deliver")
        asked: list[str] = []

        async def hand_on(msg: Msg) -> None:
            asked.append(msg.subject)
            subject = msg.subject.replace(api, "$JS.API", 1)
            await at.client.publish(subject, msg.data, reply=msg.reply, headers=msg.headers)

        await at.client.subscribe(f"{api}.>", cb=hand_on)
        await at.stream("S")
        await at.publish("S", "a", "b")
        external = {"api": api, "deliver": deliver}
        origin = {"name": at.name("S"), "external": external}

        await at.stream("A", sources=[origin])
        await at.stream("M", mirror={**origin, "filter_subject": at.subject("S", "b")})

        await at.reaches("A", 2)
        await at.reaches("M", 2)
        await at.publish("S", "c")
        await at.reaches("A", 3)
        assert f"{api}.CONSUMER.CREATE.{at.name('S')}" in asked
        (info,) = (await at.info("A"))["sources"]
        assert info["external"] == external
        name = f"{at.name('S')}:{short_hash(api).decode()}"
        assert _source((await at.messages("A"))[0])[:2] == [name, "1"]

    copies(server, test)


def test_a_message_that_can_never_be_stored_blocks_nothing(
    jetgate_server: JetgateServer,
) -> None:
    """With the header of its origin its headers are too long; nats-server asks for it for ever."""

    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        await at.publish("S", "wide", headers={"X": "x" * 65_500})
        await at.publish("S", "b")

        await at.stream("A", sources=[{"name": at.name("S")}])

        await at.reaches("A", 2)
        assert [message.data for message in await at.messages("A")] == [b"a", b"b"]
        (info,) = (await at.info("A"))["sources"]
        assert info["lag"] == 0
        assert info["error"] == {
            "code": 400,
            "err_code": 10097,
            "description": "message 2: header size exceeds maximum allowed of 64k",
        }
        counted = Web(jetgate_server.http).get("/metrics").body.decode()
        assert re.search(r'jetgate_unstored_copies_total\{err_code="10097",[^}]*\} [1-9]', counted)

    copies(jetgate_server, test)


@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_a_source_that_waits_for_another_configuration_reports_it(
    jetgate_server: JetgateServer, kind: str
) -> None:
    """As in nats-server it holds up what comes behind it; here it shows, and ends at once."""

    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a", "b", "c", "d")
        origin = {"name": at.name("S")}
        config = {kind: origin if kind == "mirror" else [origin]}

        made = await at.stream("A", max_msg_size=250, **config)
        await at.publish("S", "x" * 251, "e")

        async def held() -> bool:
            info = await at.info("A")
            told = info["mirror"] if kind == "mirror" else info["sources"][0]
            return bool(told.get("error") and told["lag"] == 2)

        await at.reaches("A", 4)
        await at.sees(held)
        info = await at.info("A")
        told = info["mirror"] if kind == "mirror" else info["sources"][0]
        assert told["error"]["description"].startswith("message 5: ")
        assert told["error"]["err_code"] == 10054

        await at.api(f"STREAM.UPDATE.{at.name('A')}", made["config"] | {"max_msg_size": -1})

        await at.reaches("A", 6, within=20)
        info = await at.info("A")
        told = info["mirror"] if kind == "mirror" else info["sources"][0]
        assert (told["lag"], told.get("error")) == (0, None)

    copies(jetgate_server, test)


def test_a_destination_with_blanks_is_copied_on_after_a_restart(
    postgres: PostgresServer, database: str
) -> None:
    """Stored, it must not keep a node from starting."""

    async def scenario() -> None:
        transform = {"src": "s.*", "dest": "p.{{partition(3, 1)}}"}
        origin = {"name": "S", "subject_transforms": [transform]}

        async def subjects(count: int) -> None:
            async def look() -> bool:
                state = (await ask(wire, "STREAM.INFO.T"))["state"]
                return int(state["messages"]) == count

            await observed(look)

        async with running_node(database) as node:
            wire = await Wire.connect(node)
            await ask(wire, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
            await ask(wire, "STREAM.CREATE.T", {"name": "T", "sources": [origin]})
            wire.writer.write(b"PUB s.a 0\r\n\r\n")
            await subjects(1)
            wire.close()
        async with running_node(database) as node:
            wire = await Wire.connect(node)
            wire.writer.write(b"PUB s.b 0\r\n\r\n")
            await subjects(2)
            wire.close()

    asyncio.run(scenario())
