"""While one stream has no leader, clients go on with the streams of the others."""

# Subject: several nodes

import asyncio
import signal

import asyncpg
import nats
import nats.js.errors
from nats.js.api import PubAck

from tests.support.eventually import observed
from tests.support.node_clients import PATIENT, UNAVAILABLE, At, at_each
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

NO_TAKEOVER = "lock table jetgate_store.lease in exclusive mode"


async def published(at: At, subject: str) -> PubAck:
    """Publish until somebody leads the stream."""

    async def publish() -> PubAck | None:
        try:
            return await at.js.publish(subject, b"x", timeout=PATIENT)
        except nats.js.errors.APIError as error:
            if error.err_code != UNAVAILABLE:
                raise
            return None

    return await observed(publish, within=60)


async def without(at: At, subject: str) -> None:
    """Return when nobody listens to a subject any more."""

    async def is_silent() -> bool:
        try:
            await at.client.request(subject, b"", timeout=0.05)
        except nats.errors.NoRespondersError:
            return True
        except nats.errors.TimeoutError:
            pass
        return False

    await observed(is_silent)


def test_publishes_to_led_streams_go_on_while_another_has_no_leader(
    durable: PostgresServer,
) -> None:
    async def scenario(nodes: Nodes, one: At, two: At) -> None:
        await one.stream("LED")
        await two.stream("GONE")
        await one.move("LED", one.name)
        await one.move("GONE", two.name)
        await two.client.subscribe("two.lives")
        await two.client.flush()
        session = await asyncpg.connect(nodes.dsn)
        try:
            async with at_each(nodes) as (other, _):
                await session.execute("begin")
                await session.execute(NO_TAKEOVER)
                process = nodes.all[1].process
                assert process is not None
                process.send_signal(signal.SIGKILL)
                await without(one, "two.lives")

                gone = asyncio.create_task(published(other, "GONE.x"))
                await asyncio.sleep(0)  # it is sent first
                ack = await one.js.publish("LED.x", b"x", timeout=PATIENT)
                assert ack.seq == 1
                assert (await one.info("LED"))["state"]["messages"] == 1
                assert not gone.done()

                await session.execute("rollback")
                assert (await gone).seq == 1  # once, and by the new leader
                assert (await one.info("GONE"))["state"]["messages"] == 1
        finally:
            session.terminate()

    async def play(nodes: Nodes) -> None:
        async with asyncio.timeout(150), at_each(nodes) as (one, two):
            await scenario(nodes, one, two)

    with Nodes(durable.fresh_database(), 2) as nodes:
        asyncio.run(play(nodes))
