"""Mirrors with a client library, on both servers."""

# Subject: mirrors and sources

from typing import Any

import pytest
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import StreamConfig, StreamSource

from tests.support.copies import Copies, copies
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

Server = JetgateServer | NatsServer


def test_a_mirror_has_the_history_and_follows(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *[f"a.{i}" for i in range(5)], headers={"X": "1"})

        await at.stream("M", mirror={"name": at.name("S")})

        await at.reaches("M", 5)
        await at.publish("S", "b")
        await at.reaches("M", 6)
        assert await at.messages("M") == await at.messages("S")
        info = await at.info("M")
        assert info["mirror"]["name"] == at.name("S")
        assert info["mirror"]["lag"] == 0
        assert info["mirror"]["active"] >= 0

    copies(server, test)


def test_expectations_of_the_origin_are_not_copied(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        expected = {"Nats-Expected-Stream": at.name("S"), "Nats-Msg-Id": "i", "X": "1"}
        await at.publish("S", "a", headers=expected)

        await at.stream("M", mirror={"name": at.name("S")})

        await at.reaches("M", 1)
        (message,) = await at.messages("M")
        assert message.headers == b"NATS/1.0\r\nNats-Msg-Id: i\r\nX: 1\r\n\r\n"

    copies(server, test)


def test_a_filter_leaves_gaps(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a", "b", "a", "c", "a")

        await at.stream("M", mirror={"name": at.name("S"), "filter_subject": at.subject("S", "a")})

        await at.reaches("M", 5)
        assert [m.seq for m in await at.messages("M")] == [1, 3, 5]
        assert (await at.info("M"))["state"]["num_deleted"] == 2

    copies(server, test)


def test_subjects_are_mapped_in_the_first_way_that_matches(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a.1", "b.1", "c.1")
        transforms = [
            {"src": at.subject("S", "a.*"), "dest": "mapped.$1"},
            {"src": at.subject("S", "b.*"), "dest": ""},
        ]

        await at.stream("M", mirror={"name": at.name("S"), "subject_transforms": transforms})

        await at.reaches("M", 2)
        found = [m.subject for m in await at.messages("M")]
        assert found == ["mapped.1", at.subject("S", "b.1")]
        assert (await at.info("M"))["mirror"]["subject_transforms"] == transforms

    copies(server, test)


def test_the_streams_own_transform_comes_last(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        own = {"src": at.subject("S", ">"), "dest": "own.>"}

        await at.stream("M", mirror={"name": at.name("S")}, subject_transform=own)

        await at.reaches("M", 1)
        assert [m.subject for m in await at.messages("M")] == ["own.a"]

    copies(server, test)


@pytest.mark.parametrize("by_time", [False, True])
def test_a_mirror_may_start_later(server: Server, by_time: bool) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abcde")
        third = (await at.messages("S"))[2]
        start: dict[str, Any] = {"opt_start_time": third.time} if by_time else {"opt_start_seq": 3}

        await at.stream("M", mirror={"name": at.name("S"), **start})

        await at.reaches("M", 5)
        state = (await at.info("M"))["state"]
        assert (state["first_seq"], state["messages"]) == (3, 3)

    copies(server, test)


def test_a_mirror_of_a_stream_that_begins_late_begins_there(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", first_seq=1000)
        await at.stream("M", mirror={"name": at.name("S")})

        await at.publish("S", "a")

        await at.reaches("M", 1000)
        state = (await at.info("M"))["state"]
        assert (state["first_seq"], state["messages"]) == (1000, 1)
        assert "num_deleted" not in state

    copies(server, test)


def test_messages_that_the_origin_loses_stay_in_the_mirror(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abc")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.reaches("M", 3)

        await at.api(f"STREAM.PURGE.{at.name('S')}")
        await at.publish("S", "d")

        await at.reaches("M", 4)
        assert [m.seq for m in await at.messages("M")] == [1, 2, 3, 4]
        assert [m.seq for m in await at.messages("S")] == [4]

    copies(server, test)


def test_messages_deleted_before_leave_gaps(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abcde")
        for seq in (2, 3):
            await at.api(f"STREAM.MSG.DELETE.{at.name('S')}", {"seq": seq})

        await at.stream("M", mirror={"name": at.name("S")})

        await at.reaches("M", 5)
        assert [m.seq for m in await at.messages("M")] == [1, 4, 5]

    copies(server, test)


def test_limits_of_the_mirror_are_its_own(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a", "b", "a", "b", "c")

        await at.stream("M", mirror={"name": at.name("S")}, max_msgs=2)
        await at.stream("K", mirror={"name": at.name("S")}, max_msgs_per_subject=1)

        await at.reaches("M", 5)
        await at.reaches("K", 5)
        assert [m.seq for m in await at.messages("M")] == [4, 5]
        assert [m.seq for m in await at.messages("K")] == [3, 4, 5]

    copies(server, test)


def test_a_full_mirror_waits_for_room(jetgate_server: JetgateServer) -> None:
    """The reference server does not go on by itself."""

    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abc")
        await at.stream("M", mirror={"name": at.name("S")}, max_msgs=2, discard="new")
        await at.reaches("M", 2)

        await at.api(f"STREAM.PURGE.{at.name('M')}", {})

        await at.reaches("M", 3, within=60)
        assert [m.seq for m in await at.messages("M")] == [3]

    copies(jetgate_server, test)


def test_roll_ups_are_followed_where_they_are_allowed(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", allow_rollup_hdrs=True)
        await at.stream("M", mirror={"name": at.name("S")}, allow_rollup_hdrs=True)
        await at.stream("N", mirror={"name": at.name("S")})
        await at.publish("S", "a", "b", "a")
        for name in "MN":
            await at.reaches(name, 3)

        await at.publish("S", "a", headers={"Nats-Rollup": "sub"})

        for name in "MN":
            await at.reaches(name, 4)

        async def is_rolled_up() -> bool:
            return [m.seq for m in await at.messages("M")] == [2, 4]

        await at.sees(is_rolled_up)  # the reference stores it first
        assert [m.seq for m in await at.messages("N")] == [1, 2, 3, 4]

    copies(server, test)


def test_publishes_into_a_mirror_have_no_responders(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.stream("M", mirror={"name": at.name("S")})

        with pytest.raises(NoRespondersError):
            await at.client.request(at.name("M"), b"", timeout=30)

    copies(server, test)


def test_a_mirror_becomes_a_stream_of_its_own(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", allow_direct=True)
        await at.publish("S", *"ab")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.reaches("M", 2)

        reply = await at.api(
            f"STREAM.UPDATE.{at.name('M')}",
            {"name": at.name("M"), "subjects": [at.subject("M", ">")]},
        )

        assert "mirror" not in reply
        assert reply["config"]["mirror_direct"] is False
        assert await at.publish("M", "own") == [3]
        await at.publish("S", "c")
        assert [m.subject for m in await at.messages("M")][2:] == [at.subject("M", "own")]
        # The name of the origin is free of it: a loop is none any more.
        await at.api(
            f"STREAM.UPDATE.{at.name('S')}",
            {"name": at.name("S"), "subjects": [at.subject("S", ">")], "allow_direct": True},
        )

    copies(server, test)


def test_the_configuration_of_a_mirror_is_fixed(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.stream("M", mirror={"name": at.name("S")})

        changed = {"name": at.name("S"), "filter_subject": "x"}
        reply = await at.ask(
            f"STREAM.UPDATE.{at.name('M')}", {"name": at.name("M"), "mirror": changed}
        )

        assert reply["error"]["err_code"] == 10055

    copies(server, test)


def test_loops_are_refused(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.stream("M", mirror={"name": at.name("S")})

        itself = await at.ask(
            f"STREAM.CREATE.{at.name('X')}",
            {"name": at.name("X"), "mirror": {"name": at.name("X")}},
        )
        round_trip = await at.ask(
            f"STREAM.UPDATE.{at.name('S')}",
            {"name": at.name("S"), "subjects": ["x"], "sources": [{"name": at.name("M")}]},
        )

        for reply in (itself, round_trip):
            assert reply["error"]["description"] == "detected cycle"

    copies(server, test)


def test_a_mirror_of_a_mirror_follows_as_well(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", *"abc")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.stream("N", mirror={"name": at.name("M")})

        await at.reaches("N", 3)
        await at.publish("S", "d")
        await at.reaches("N", 4)
        assert await at.messages("N") == await at.messages("S")

    copies(server, test)


def test_a_mirror_made_before_its_origin_waits_for_it(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("M", mirror={"name": at.name("S")})
        await at.stream("S")
        await at.publish("S", "a")

        await at.reaches("M", 1, within=60)

    copies(server, test)


def test_a_mirror_reads_an_interest_stream_without_missing_any(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", retention="interest")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.has_consumer("S")

        await at.publish("S", *"abc")

        await at.reaches("M", 3)
        (consumer,) = (await at.api(f"CONSUMER.LIST.{at.name('S')}", {}))["consumers"]
        assert consumer["config"]["ack_policy"] == "flow_control"
        assert consumer["config"]["metadata"]["_nats.mirror.stream"] == at.name("M")
        await at.empties("S")
        await at.api(f"STREAM.DELETE.{at.name('M')}")
        await at.has_no_consumer("S")

    copies(server, test)


def test_the_python_client_adds_a_mirror(server: Server) -> None:
    async def test(at: Copies) -> None:
        js: JetStreamContext = at.client.jetstream(timeout=30)
        await js.add_stream(name=at.name("S"), subjects=[at.subject("S", ">")])
        await js.publish(at.subject("S", "a"), b"x")

        config = StreamConfig(name=at.name("M"), mirror=StreamSource(name=at.name("S")))
        await js.add_stream(config)

        await at.reaches("M", 1)
        info = await js.stream_info(at.name("M"))
        assert info.mirror is not None
        assert info.mirror.name == at.name("S")
        assert (await js.get_msg(at.name("M"), 1)).data == b"x"

    copies(server, test)


def test_times_to_live_are_kept_and_count_where_they_are_allowed(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", allow_msg_ttl=True, subject_delete_marker_ttl=1_000_000_000)
        origin = {"name": at.name("S")}
        await at.stream("M", mirror=origin)
        await at.stream("T", mirror=origin, allow_msg_ttl=True)
        await at.stream("A", sources=[origin], allow_msg_ttl=True)
        await at.publish("S", "first")
        for short in "MTA":  # what lives for a second only must find them copying
            await at.reaches(short, 1)
        await at.publish("S", "a", headers={"Nats-TTL": "1"})
        for short in "MTA":
            await at.reaches(short, 3)

        for short in "TA":
            await at.empties(short, 1)
        blocks = [m.headers for m in await at.messages("M")]
        assert b"Nats-TTL: 1\r\n" in blocks[1]
        assert b"Nats-Marker-Reason: MaxAge\r\nNats-TTL: 1s\r\n" in blocks[2]

    copies(server, test)
