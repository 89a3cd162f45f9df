"""Streams for tests of mirrors and sources: unique names, API requests, waits for their state."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

_numbers = count()


@dataclass(frozen=True)
class Copy:
    """A stored message from the answer of STREAM.MSG.GET; `time` is RFC 3339 text."""

    seq: int
    subject: str
    headers: bytes
    data: bytes
    time: str


class Copies:
    """The streams of one test on a server, with a client connection to it.

    Methods take the short name of a stream, such as `A`; its full name has a prefix that no other
    instance uses.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._prefix = f"CP{next(_numbers)}"
        self._streams: list[str] = []

    @classmethod
    async def at(cls, server: JetgateServer) -> Self:
        """Return an instance with a new connection, for tests that kill the server."""
        return cls(await _open(server))

    async def reconnect(self, server: JetgateServer) -> None:
        """Close the connection and open a new one, after the server has restarted."""
        with suppress(Error):
            await self.client.close()
        self.client = await _open(server)

    def name(self, short: str) -> str:
        """Return the full name of the stream with this short name."""
        return f"{self._prefix}{short}"

    def subject(self, short: str, tail: str) -> str:
        """Return the subject `FULL_NAME.tail` of a stream."""
        return f"{self.name(short)}.{tail}"

    # -- requests ----------------------------------------------------------------------------

    async def ask(self, verb: str, body: object = None) -> dict[str, Any]:
        """Send a request to `$JS.API.<verb>` and return its answer, which may be an error."""
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.client.request(f"$JS.API.{verb}", payload, timeout=30)
        return dict(json.loads(reply.data))

    async def api(self, verb: str, body: object = None) -> dict[str, Any]:
        """Send a request to `$JS.API.<verb>` and return its answer.

        Raises AssertionError if the answer is an error.
        """
        reply = await self.ask(verb, body)
        assert "error" not in reply, reply["error"]
        return reply

    async def stream(self, short: str, **config: Any) -> dict[str, Any]:
        """Create a stream and return the answer.

        Without `subjects`, `mirror` and `sources` in `config` its subjects are `FULL_NAME.>`.
        """
        if "mirror" not in config and "sources" not in config:
            config.setdefault("subjects", [self.subject(short, ">")])
        name = self.name(short)
        self._streams.append(name)
        return await self.api(f"STREAM.CREATE.{name}", {"name": name, **config})

    async def publish(
        self, short: str, *tails: str, headers: dict[str, str] | None = None
    ) -> list[int]:
        """Publish a message on the subject of each tail, with the tail as payload.

        Returns the sequences of the messages.
        """
        seqs = []
        for tail in tails:
            subject = self.subject(short, tail)
            reply = await self.client.request(subject, tail.encode(), timeout=30, headers=headers)
            answer = json.loads(reply.data)
            assert "error" not in answer, answer
            seqs.append(int(answer["seq"]))
        return seqs

    async def info(self, short: str) -> dict[str, Any]:
        """Return the answer of STREAM.INFO."""
        return await self.api(f"STREAM.INFO.{self.name(short)}")

    async def messages(self, short: str) -> list[Copy]:
        """Return every message of a stream."""
        state = (await self.info(short))["state"]
        found = []
        for seq in range(max(state["first_seq"], 1), state["last_seq"] + 1):
            reply = await self.ask(f"STREAM.MSG.GET.{self.name(short)}", {"seq": seq})
            if "error" not in reply:
                message = reply["message"]
                headers, data = (b64decode(message.get(part, "")) for part in ("hdrs", "data"))
                found.append(Copy(seq, message["subject"], headers, data, message["time"]))
        return found

    async def read(self, short: str) -> list[Msg]:
        """Return every message of a stream, from an ephemeral push consumer without acks."""
        info = await self.info(short)
        left = info["state"]["messages"]
        inbox = self.client.new_inbox()
        name = self.name(short)
        subscription = await self.client.subscribe(inbox)
        config = {"deliver_subject": inbox, "ack_policy": "none", "deliver_policy": "all"}
        await self.api(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
        found = [await subscription.next_msg(timeout=30) for _ in range(left)]
        await subscription.unsubscribe()
        return found

    # -- observations ------------------------------------------------------------------------

    async def sees(self, look: Callable[[], Awaitable[Any]], within: float = 30) -> Any:
        """Call `look` until it returns a true value; return that value.

        Raises AssertionError after `within` seconds.
        """
        return await observed(look, within=within)

    async def answers(self, short: str) -> bool:
        """Return True if STREAM.INFO succeeds; it fails while storage is unavailable."""
        with suppress(Error):
            return "error" not in await self.ask(f"STREAM.INFO.{self.name(short)}")
        return False

    async def reaches(self, short: str, seq: int, *, within: float = 30) -> None:
        """Wait up to `within` seconds until the last sequence of a stream is at least `seq`."""

        async def look() -> bool:
            return bool((await self.info(short))["state"]["last_seq"] >= seq)

        await self.sees(look, within)

    async def empties(self, short: str, left: int = 0) -> None:
        """Wait up to 30 seconds until a stream has exactly `left` messages."""

        async def look() -> bool:
            return bool((await self.info(short))["state"]["messages"] == left)

        try:
            await self.sees(look)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.told()}") from None

    async def told(self) -> list[dict[str, Any]]:
        """Return a report on each stream: state, mirror, sources and consumers, from the API."""
        told = []
        for name in self._streams:
            info = await self.api(f"STREAM.INFO.{name}")
            consumers = (await self.api(f"CONSUMER.LIST.{name}"))["consumers"]
            told.append(
                {key: info.get(key) for key in ("state", "mirror", "sources")} | {name: consumers}
            )
        return told

    async def has_consumer(self, short: str) -> None:
        """Wait until CONSUMER.NAMES lists a consumer of a stream."""
        await self.sees(lambda: self._consumers(short))

    async def has_no_consumer(self, short: str) -> None:
        """Wait until CONSUMER.NAMES lists no consumer of a stream."""

        async def look() -> bool:
            return not await self._consumers(short)

        await self.sees(look)

    async def _consumers(self, short: str) -> Sequence[str]:
        names: list[str] = (await self.api(f"CONSUMER.NAMES.{self.name(short)}"))["consumers"]
        return names

    async def clear(self) -> None:
        """Delete the streams of this test, in reverse order of creation."""
        for name in reversed(self._streams):
            await self.ask(f"STREAM.DELETE.{name}")


async def _open(server: JetgateServer) -> Client:
    host, port = server.address
    return await nats.connect(f"nats://{host}:{port}", allow_reconnect=False, connect_timeout=30)


def copies(server: JetgateServer | NatsServer, test: Callable[[Copies], Awaitable[None]]) -> None:
    """Run an async test with a `Copies` of a server; if it passes, delete its streams."""

    async def run() -> None:
        host, port = server.address
        client = await nats.connect(f"nats://{host}:{port}")
        at = Copies(client)
        try:
            await test(at)
            await at.clear()
        finally:
            await client.close()

    asyncio.run(run())
