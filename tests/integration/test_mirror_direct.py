"""Direct Get under the name of the origin, answered by its mirror."""

# Subject: message get

from typing import Any

import pytest
from nats.errors import NoRespondersError

from tests.support.copies import Copies, copies
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

Server = JetgateServer | NatsServer


async def _get(at: Copies, subject: str, body: bytes = b"") -> tuple[bytes, str]:
    """Ask, and return the message with the name of the stream that answered."""
    reply = await at.client.request(f"$JS.API.DIRECT.GET.{subject}", body, timeout=30)
    assert reply.headers is not None
    return reply.data, reply.headers.get("Nats-Stream", reply.headers.get("Status", ""))


def test_a_mirror_takes_over_from_its_origin(server: Server) -> None:
    async def test(at: Copies) -> None:
        created = await at.stream("S", allow_direct=True)
        assert created["config"]["allow_direct"] is True
        await at.publish("S", "a", "b")
        mirror = await at.stream("M", mirror={"name": at.name("S")})
        assert mirror["config"]["mirror_direct"] is True
        await at.reaches("M", 2)

        await at.api(f"STREAM.DELETE.{at.name('S')}")

        async def look() -> Any:
            try:
                return await _get(at, f"{at.name('S')}.{at.subject('S', 'b')}")
            except NoRespondersError:
                return None

        assert await at.sees(look) == (b"b", at.name("M"))
        assert await _get(at, at.name("S"), b'{"seq":1}') == (b"a", at.name("M"))

    copies(server, test)


def test_a_mirror_without_it_does_not_answer_for_its_origin(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S")
        await at.publish("S", "a")
        await at.stream("M", mirror={"name": at.name("S")}, allow_direct=True)
        await at.reaches("M", 1)

        with pytest.raises(NoRespondersError):
            await _get(at, at.name("S"), b'{"seq":1}')

        assert await _get(at, at.name("M"), b'{"seq":1}') == (b"a", at.name("M"))

    copies(server, test)


def test_an_answer_comes_once(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", allow_direct=True)
        await at.publish("S", "a")
        for short in "MN":
            await at.stream(short, mirror={"name": at.name("S")})
            await at.reaches(short, 1)
        inbox = at.client.new_inbox()
        answers = await at.client.subscribe(inbox)

        for _ in range(20):
            await at.client.publish(f"$JS.API.DIRECT.GET.{at.name('S')}", b'{"seq":1}', reply=inbox)

        found = [await answers.next_msg(timeout=30) for _ in range(20)]
        await at.client.flush()
        assert answers.pending_msgs == 0
        assert {m.data for m in found} == {b"a"}

    copies(server, test)


def test_a_promoted_mirror_answers_for_its_origin_no_more(server: Server) -> None:
    async def test(at: Copies) -> None:
        await at.stream("S", allow_direct=True)
        await at.publish("S", "a")
        await at.stream("M", mirror={"name": at.name("S")})
        await at.reaches("M", 1)
        await at.api(f"STREAM.DELETE.{at.name('S')}")

        await at.api(f"STREAM.UPDATE.{at.name('M')}", {"name": at.name("M"), "subjects": ["m.x"]})

        with pytest.raises(NoRespondersError):
            await _get(at, at.name("S"), b'{"seq":1}')

    copies(server, test)
