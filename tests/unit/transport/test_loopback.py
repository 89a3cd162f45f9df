"""The in-process connection behaves as a socket does."""

# Subject: protocol, gateway client

import asyncio

from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from core.transport.loopback import LoopbackLink, connect_loopback

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'


class End:
    """The client's side of a loopback."""

    def __init__(self, hub: Hub) -> None:
        self.received = b""
        self.is_closed = 0
        self._news = asyncio.Event()
        self.link: LoopbackLink = connect_loopback(hub, self._receive, self._closed)

    def _receive(self, data: bytes) -> None:
        self.received += data
        self._news.set()

    def _closed(self, error: Exception | None) -> None:
        assert error is None
        self.is_closed += 1
        self._news.set()

    async def until(self, text: bytes) -> bytes:
        async with asyncio.timeout(30):
            while text not in self.received:
                self._news.clear()
                await self._news.wait()
        data, self.received = self.received, b""
        return data

    async def until_closed(self) -> None:
        async with asyncio.timeout(30):
            while not self.is_closed:
                self._news.clear()
                await self._news.wait()


def new_hub() -> Hub:
    return Hub(LoopTick(), SystemClock())


def test_it_speaks_the_protocol() -> None:
    async def main() -> None:
        hub = new_hub()
        one, two = End(hub), End(hub)
        one.link.write(CONNECT + b"SUB a 1\r\nPING\r\n")
        assert (await one.until(b"PONG\r\n")).startswith(b"INFO {")
        two.link.write(CONNECT)
        two.link.write(b"PUB a 5\r\nhe")
        two.link.write(b"llo\r\nPING\r\n")
        await two.until(b"PONG\r\n")

        assert await one.until(b"hello") == b"MSG a 1 5\r\nhello\r\n"
        assert len(hub.sessions) == 2

    asyncio.run(main())


def test_nothing_is_received_within_the_call_that_writes() -> None:
    async def main() -> None:
        end = End(new_hub())
        end.link.write(CONNECT + b"PING\r\n")

        assert end.received == b""
        await end.until(b"PONG\r\n")

    asyncio.run(main())


def test_closing_sends_what_was_written_and_calls_closed_once() -> None:
    async def main() -> None:
        hub = new_hub()
        listener, end = End(hub), End(hub)
        listener.link.write(CONNECT + b"SUB a 1\r\nPING\r\n")
        await listener.until(b"PONG\r\n")
        end.link.write(CONNECT + b"PUB a 3\r\nbye\r\n")
        end.link.close()
        end.link.write(b"PUB a 3\r\nno!\r\n")

        await listener.until(b"bye\r\n")
        await end.until_closed()
        end.link.close()
        await asyncio.sleep(0)

        assert end.is_closed == 1
        assert listener.received == b""
        assert len(hub.sessions) == 1

    asyncio.run(main())


def test_the_server_may_close_it() -> None:
    async def main() -> None:
        hub = new_hub()
        end = End(hub)
        end.link.write(b"NONSENSE\r\n")

        await end.until_closed()

        assert end.received.endswith(b"-ERR 'Unknown Protocol Operation'\r\n")
        assert not hub.sessions

    asyncio.run(main())


def test_a_client_that_stops_reading_blocks_its_session() -> None:
    async def main() -> None:
        hub = new_hub()
        slow, publisher = End(hub), End(hub)
        slow.link.write(CONNECT + b"SUB a 1\r\nPING\r\n")
        await slow.until(b"PONG\r\n")
        slow.link.pause_reading()
        publisher.link.write(CONNECT + b"PUB a 300000\r\n%b\r\nPING\r\n" % (b"x" * 300_000))
        await publisher.until(b"PONG\r\n")
        assert slow.link.session.blocked
        assert slow.received == b""

        slow.link.resume_reading()

        assert (await slow.until(b"x" * 300_000)).startswith(b"MSG a 1 300000\r\n")
        assert not slow.link.session.blocked

    asyncio.run(main())


def test_a_link_is_paused_while_the_server_is_overloaded() -> None:
    async def main() -> None:
        hub = new_hub()
        end = End(hub)
        end.link.write(CONNECT + b"PING\r\n")
        await end.until(b"PONG\r\n")
        hub.begin_backpressure()
        message = b"PUB a 60000\r\n%b\r\n" % (b"x" * 60_000)
        for _ in range(6):
            end.link.write(message)
        for _ in range(10):
            await asyncio.sleep(0)
        assert end.link.paused

        hub.end_backpressure()
        end.link.write(b"PING\r\n")

        await end.until(b"PONG\r\n")
        assert not end.link.paused

    asyncio.run(main())
