"""PostgreSQL and the server are killed under the Python SDK, which goes on without help."""

# Subject: SDKs

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import jetgate_client as sdk
import pytest
from jetgate_client.generated.api.streams import read_stream

from tests.support.jetgate import JetgateServer

_EACH_WAY = 20
"""Messages before the kill, and after it."""


@pytest.fixture
def server() -> Iterator[JetgateServer]:
    """One that may be killed."""
    with JetgateServer(in_memory=True) as server:
        yield server


def test_everything_goes_on_and_is_stored_once(server: JetgateServer) -> None:
    async def scenario() -> None:
        url = "http://{}:{}".format(*server.http)
        async with asyncio.timeout(80), sdk.connect(url) as js:
            await js.put_stream("S", subjects=["s"])
            await js.put_consumer("S", "C", ack_policy="explicit", ack_wait=5 * 10**9)
            # A feed resumes without a reset while no revision behind its position is removed.
            bucket = await js.put_bucket("B", history=64)
            published = 0
            reached, watching, restarted = (asyncio.Event() for _ in range(3))

            async def publishes() -> None:
                nonlocal published
                left = _EACH_WAY
                for number in count():
                    await js.publish("s", str(number))
                    await bucket.put("last", str(number))
                    published = number + 1
                    if published == _EACH_WAY:
                        reached.set()
                    left -= restarted.is_set()
                    if not left:
                        break
                await js.publish("s", "end")
                await bucket.put("last", "end")

            async def consumes() -> set[str]:
                seen: set[str] = set()
                async with js.consume("S", "C") as messages:
                    async for message in messages:
                        seen.add(message.text())
                        with suppress(sdk.OutcomeUnknown):  # it will come again
                            await message.ack(sync=True)
                        if "end" in seen and len(seen) == published + 1:
                            return seen
                raise AssertionError("messages end only here")

            async def watches() -> list[str]:
                seen = []
                async for change in bucket.watch():
                    assert change.event != "reset"
                    if change.entry is not None:
                        watching.set()
                        seen.append(change.entry.text())
                        if seen[-1] == "end":
                            break
                return seen

            async def restarts() -> None:
                await reached.wait()
                await watching.wait()
                await asyncio.to_thread(server.kill_postgres)
                await asyncio.to_thread(server.restart)
                restarted.set()

            _, got, values, _ = await asyncio.gather(publishes(), consumes(), watches(), restarts())
            assert got == {*map(str, range(published)), "end"}
            assert values == sorted(values, key=lambda text: (text == "end", text.zfill(9)))
            info = await read_stream.asyncio("S", client=js.api)
            assert info is not None
            assert info.state.messages == published + 1

    asyncio.run(scenario())
