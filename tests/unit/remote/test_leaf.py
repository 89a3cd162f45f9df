"""A leaf node connection against a scripted server."""

# Subject: remotes

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from core.client import Options, RequestTimeout
from core.remote.leaf import Leaf
from tests.unit.client.scripted import ScriptedServer


def with_a_leaf(
    work: Callable[[Leaf, ScriptedServer], Awaitable[None]],
    script: Callable[[bytes], bytes] = lambda data: b"",
) -> None:
    async def run() -> None:
        server = ScriptedServer(script)
        leaf = Leaf(server.connector, Options(name="me", user="ann", password="p"))
        await leaf.open()
        await work(leaf, server)
        await leaf.close()

    asyncio.run(run())


def test_it_sends_its_identity_and_its_subjects() -> None:
    async def work(leaf: Leaf, server: ScriptedServer) -> None:
        end = leaf.serve(b"$JS.gate.API.>", lambda *message: None)
        await asyncio.sleep(0)
        end()
        await asyncio.sleep(0)

        assert server.written.startswith(b"CONNECT {")
        assert b'"user":"ann","pass":"p"' in server.written
        assert server.written.endswith(b"LS+ $JS.gate.API.>\r\nLS- $JS.gate.API.>\r\n")

    with_a_leaf(work)


def test_listeners_are_known_until_the_last_is_gone() -> None:
    async def work(leaf: Leaf, server: ScriptedServer) -> None:
        told: list[bytes] = []
        leaf.on_interest.append(told.append)
        say = server.link.receive

        say(b"LS+ a\r\nLS+ a crew 1\r\nLS+ a crew 2\r\nLS+ w.*\r\nLS+ $LDS.x\r\n")
        present = leaf.has_interest(b"a"), leaf.has_interest(b"w.x"), leaf.has_interest(b"$LDS.x")
        say(b"LS- a\r\n")
        still = leaf.has_interest(b"a")
        say(b"LS- a crew\r\nLS- w.*\r\nLS- never\r\n")

        assert (present, still) == ((True, True, False), True)
        assert (leaf.has_interest(b"a"), leaf.has_interest(b"w.x")) == (False, False)
        assert told == [b"a", b"a", b"a", b"w.*", b"a", b"a", b"w.*"]

    with_a_leaf(work)


def test_a_delivery_has_its_subject_in_its_reply() -> None:
    async def work(leaf: Leaf, server: ScriptedServer) -> None:
        ack, block = b"$JS.ACK.S.C.1.1.1.17.0", b"NATS/1.0\r\nA: b\r\n\r\n"
        size = len(block)
        before = len(server.written)
        leaf.deliver(
            b"to",
            [
                (b"s.x", ack, b"", b"hi"),
                (b"s.y", ack, block, b"hi"),
                (b"to", b"$JS.FC.x", b"", b""),
                (b"s.z", ack, b"", b"x" * 1025),
            ],
        )
        await asyncio.sleep(0)

        assert server.written[before:] == (
            b"LMSG to %b@s.x 2\r\nhi\r\n" % ack
            + b"HMSG to %b@s.y %d %d\r\n%bhi\r\n" % (ack, size, size + 2, block)
            + b"LMSG to $JS.FC.x 0\r\n\r\n"
        )
        assert "larger than the server takes" in leaf.last_error

    with_a_leaf(work)


def test_served_subjects_are_served_on_the_next_connection() -> None:
    async def run() -> None:
        server = ScriptedServer()
        leaf = Leaf(server.connector, Options())
        changes = asyncio.Queue[bool]()
        leaf.changed.subscribe(lambda: changes.put_nowait(leaf.connected))
        leaf.start()
        async with asyncio.timeout(30):
            assert await changes.get()
            leaf.serve(b"mine.>", lambda *message: None)
            server.link.receive(b"LS+ a\r\n")
            await asyncio.sleep(0)
            server.link.close()
            assert not await changes.get()
            forgotten = not leaf.has_interest(b"a")
            assert await changes.get()
        await asyncio.sleep(0)
        await leaf.close()

        assert forgotten
        assert server.written.endswith(b"LS+ mine.>\r\n")

    asyncio.run(run())


def test_a_server_that_does_not_answer_twice_is_gone() -> None:
    async def work(leaf: Leaf, server: ScriptedServer) -> None:
        server.script = lambda data: b""
        server.link._answer = lambda data: b""
        for _ in range(2):
            assert leaf.connected
            with pytest.raises(RequestTimeout):
                await leaf.flush(0.01)
        await asyncio.sleep(0)

        assert not leaf.connected

    with_a_leaf(work)
