"""Clients of several nodes, with methods that wait for streams and transfer their leadership."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError, TimeoutError
from nats.js import JetStreamContext
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes, send

PATIENT = 60.0
_UNANSWERED = 2.0
"""Seconds after which a client repeats a request whose leader may have stopped."""


class At:
    """A client of one node.

    Attributes:
        name: Name of the node.
    """

    def __init__(self, node: JetgateServer, client: Client) -> None:
        self.node, self.client = node, client
        self.name = str(client._server_info["server_name"])
        self.js: JetStreamContext = client.jetstream(timeout=PATIENT)

    async def ask(self, subject: str, body: object = "") -> dict[str, Any]:
        """Send a request and return its decoded answer; a `body` other than text becomes JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        answer = await self.client.request(subject, text.encode(), timeout=PATIENT)
        return dict(json.loads(answer.data))

    async def stream(self, name: str, **config: Any) -> dict[str, Any]:
        """Create a stream with a request to this node.

        Without `subjects`, `mirror` and `sources` in `config` its subjects are `NAME.>`.
        """
        if not {"mirror", "sources", "subjects"} & config.keys():
            config["subjects"] = [f"{name}.>"]
        return await self.done(f"STREAM.CREATE.{name}", {"name": name, **config})

    async def done(self, verb: str, body: object = "") -> dict[str, Any]:
        """Repeat a request to `$JS.API.<verb>` until it succeeds; return its answer.

        Raises AssertionError for an error other than `UNAVAILABLE`, and after 60 seconds.
        """

        async def look() -> dict[str, Any] | None:
            answer = await self.ask(f"$JS.API.{verb}", body)
            assert answer.get("error", {}).get("err_code", UNAVAILABLE) == UNAVAILABLE, answer
            return None if "error" in answer else answer

        return await observed(look, within=60)

    async def info(self, name: str) -> dict[str, Any]:
        """Return the answer of STREAM.INFO."""
        return await self.done(f"STREAM.INFO.{name}")

    async def leader(self, name: str) -> str:
        """Return the name of the node that leads a stream."""
        return str((await self.info(name))["cluster"]["leader"])

    async def move(self, name: str, to: str) -> None:
        """Transfer a stream to the node named `to`; return when that node leads the stream.

        Raises AssertionError after 60 seconds.
        """

        async def is_led() -> bool:
            if await self.leader(name) == to:
                return True
            # Repeat the request: another transfer may have begun just before. A request that is
            # held until that transfer is complete finds the stream at its destination.
            body = {"placement": {"preferred": to}}
            answer = await self.ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", body)
            code = answer.get("error", {}).get("err_code", UNAVAILABLE)
            assert code in (UNAVAILABLE, NO_PEERS), answer
            return False

        await observed(is_led, within=60)

    async def keep(self, name: str) -> None:
        """Transfer a stream to this node, so that rebalancing does not move it for some seconds.

        Rebalancing leaves a stream in place for some seconds after a transfer on request. So a
        stream that this node already leads is first transferred to another node.
        """

        async def has_left() -> bool:
            if await self.leader(name) != self.name:
                return True
            await self.done(f"STREAM.LEADER.STEPDOWN.{name}")
            return False

        await observed(has_left, within=60)
        await self.move(name, self.name)

    async def holds(self, name: str, messages: int, *, within: float = 60) -> None:
        """Wait up to `within` seconds until a stream has exactly `messages` messages."""

        async def look() -> bool:
            return bool((await self.info(name))["state"]["messages"] == messages)

        await observed(look, within=within)

    async def store(self, subject: str, payload: bytes, **headers: str) -> int:
        """Publish a message until an acknowledgement arrives; return its sequence.

        All attempts have the same `Nats-Msg-Id`, so that the message is stored once. Raises
        AssertionError after 60 seconds.
        """
        sent = {"Nats-Msg-Id": f"{subject} {payload.decode()}", **headers}

        async def look() -> int:
            with suppress(TimeoutError, NoStreamResponseError, ServiceUnavailableError):
                ack = await self.js.publish(subject, payload, timeout=_UNANSWERED, headers=sent)
                return ack.seq
            return 0

        return await observed(look, within=60)

    async def acknowledge(self, message: Msg) -> None:
        """Send the ack of a message until the server confirms it (AckSync), for up to 60 s."""

        async def look() -> bool:
            with suppress(TimeoutError, NoRespondersError):
                await self.client.request(message.reply, b"+ACK", timeout=_UNANSWERED)
                return True
            return False

        await observed(look, within=60)

    async def hears(self, other: "At") -> None:
        """Wait until messages published at the node of `other` reach subscriptions of this client.

        Raises AssertionError after 60 seconds.
        """
        mark = self.client.new_inbox()
        got = await self.client.subscribe(mark)

        async def look() -> bool:
            await other.client.publish(mark)
            with suppress(TimeoutError):
                return bool(await got.next_msg(timeout=0.2))
            return False

        await observed(look, within=60)
        await got.unsubscribe()


UNAVAILABLE, NO_PEERS = 10008, 10005


@asynccontextmanager
async def at_each(nodes: Nodes, **who: str) -> AsyncIterator[list[At]]:
    """Yield a client of each node, in the order of the nodes. A lost connection is not reopened.

    `who` contains arguments of `nats.connect`, such as user and password.
    """
    async with AsyncExitStack() as stack:
        found = []
        for node in nodes.all:
            address = "nats://{}:{}".format(*node.address)
            client = await nats.connect(address, allow_reconnect=False, connect_timeout=30, **who)
            stack.push_async_callback(client.close)
            found.append(At(node, client))
        yield found


def run(nodes: Nodes, scenario: Callable[[At, At, At], Awaitable[None]], **who: str) -> None:
    """Run a scenario with a client of each of three nodes, for at most 150 seconds.

    Afterwards start and resume all nodes, and wait until they are settled.
    """

    async def within_time() -> None:
        async with asyncio.timeout(150), at_each(nodes, **who) as (one, two, three):
            await scenario(one, two, three)

    try:
        asyncio.run(within_time())
    finally:  # a failure here must not affect the next test
        for node in nodes.all:
            if node.process is None:
                node.start()
            send(node, signal.SIGCONT)
        nodes.settled()
