"""Streams over several nodes: each client is on a node, and says which node is to lead a stream."""

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
"""Seconds after which what was given to a leader that is gone is sent again."""


class At:
    """A client of one node.

    Attributes:
        name: that of the node.
    """

    def __init__(self, node: JetgateServer, client: Client) -> None:
        self.node, self.client = node, client
        self.name = str(client._server_info["server_name"])
        self.js: JetStreamContext = client.jetstream(timeout=PATIENT)

    async def ask(self, subject: str, body: object = "") -> dict[str, Any]:
        """Ask the API; `body` is sent as JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        answer = await self.client.request(subject, text.encode(), timeout=PATIENT)
        return dict(json.loads(answer.data))

    async def stream(self, name: str, **config: Any) -> dict[str, Any]:
        """Create a stream that this node leads."""
        if not {"mirror", "sources", "subjects"} & config.keys():
            config["subjects"] = [f"{name}.>"]
        return await self.done(f"STREAM.CREATE.{name}", {"name": name, **config})

    async def done(self, verb: str, body: object = "") -> dict[str, Any]:
        """Have the API do something, once who is to do it can."""

        async def look() -> dict[str, Any] | None:
            answer = await self.ask(f"$JS.API.{verb}", body)
            assert answer.get("error", {}).get("err_code", UNAVAILABLE) == UNAVAILABLE, answer
            return None if "error" in answer else answer

        return await observed(look, within=60)

    async def info(self, name: str) -> dict[str, Any]:
        """The info of a stream."""
        return await self.done(f"STREAM.INFO.{name}")

    async def leader(self, name: str) -> str:
        """The name of the node that leads a stream."""
        return str((await self.info(name))["cluster"]["leader"])

    async def move(self, name: str, to: str) -> None:
        """Have a node lead a stream; return when it does."""

        async def is_led() -> bool:
            if await self.leader(name) == to:
                return True
            # Again, where it was about to move elsewhere when it was asked for; what is held until
            # it has moved finds that it has.
            body = {"placement": {"preferred": to}}
            answer = await self.ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", body)
            code = answer.get("error", {}).get("err_code", UNAVAILABLE)
            assert code in (UNAVAILABLE, NO_PEERS), answer
            return False

        await observed(is_led, within=60)

    async def keep(self, name: str) -> None:
        """Lead a stream here, for some seconds at least.

        So long it stays where it has come because a client wanted it; else it may move on at any
        time, so that all nodes lead about as many. So it leaves first, if it is here.
        """

        async def has_left() -> bool:
            if await self.leader(name) != self.name:
                return True
            await self.done(f"STREAM.LEADER.STEPDOWN.{name}")
            return False

        await observed(has_left, within=60)
        await self.move(name, self.name)

    async def holds(self, name: str, messages: int, *, within: float = 60) -> None:
        """Return when a stream has so many messages."""

        async def look() -> bool:
            return bool((await self.info(name))["state"]["messages"] == messages)

        await observed(look, within=within)

    async def store(self, subject: str, payload: bytes, **headers: str) -> int:
        """Publish until it is acknowledged, with a message id: stored once; its sequence."""
        sent = {"Nats-Msg-Id": f"{subject} {payload.decode()}", **headers}

        async def look() -> int:
            with suppress(TimeoutError, NoStreamResponseError, ServiceUnavailableError):
                ack = await self.js.publish(subject, payload, timeout=_UNANSWERED, headers=sent)
                return ack.seq
            return 0

        return await observed(look, within=60)

    async def acknowledge(self, message: Msg) -> None:
        """Acknowledge a message until that is answered: it is never delivered again then."""

        async def look() -> bool:
            with suppress(TimeoutError, NoRespondersError):
                await self.client.request(message.reply, b"+ACK", timeout=_UNANSWERED)
                return True
            return False

        await observed(look, within=60)

    async def hears(self, other: "At") -> None:
        """Return when messages published at another node reach what this client subscribes to."""
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
    """A client on each of some nodes, that does not come back once its connection is lost."""
    async with AsyncExitStack() as stack:
        found = []
        for node in nodes.all:
            address = "nats://{}:{}".format(*node.address)
            client = await nats.connect(address, allow_reconnect=False, connect_timeout=30, **who)
            stack.push_async_callback(client.close)
            found.append(At(node, client))
        yield found


def run(nodes: Nodes, scenario: Callable[[At, At, At], Awaitable[None]], **who: str) -> None:
    """Play a scenario with a client of each of three nodes, which are all there again after it."""

    async def within_time() -> None:
        async with asyncio.timeout(150), at_each(nodes, **who) as (one, two, three):
            await scenario(one, two, three)

    try:
        asyncio.run(within_time())
    finally:  # what fails here is not to fail in the next test
        for node in nodes.all:
            if node.process is None:
                node.start()
            send(node, signal.SIGCONT)
        nodes.settled()
