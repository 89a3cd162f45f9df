"""A feed of a pull consumer: it pulls no more than its reader has granted."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from core.client.errors import ClientError, ConnectionLost
from core.client.feeds.credit import Credit
from core.client.feeds.feed import Feed
from core.client.jetstream import JetStream
from core.client.subscribe.acks import Acking, JsMsg
from core.client.subscribe.deleting import delete_consumer
from core.client.subscribe.errors import Interrupted, NotJetStream
from core.client.subscribe.inbox import Inbox, Limits
from core.client.subscribe.lookup import Found, find_pull
from core.client.subscribe.puller import Puller
from core.client.subscribe.push import OnAlarm
from core.client.subscribe.target import Target
from core.errors import ApiError
from core.runtime.tasks import spawn, stop

DURABLE_LIMITS = Limits(512, 1024 * 1024)
NOTHING = Limits(0, 0)

_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 2.0


@dataclass(frozen=True, slots=True)
class DurableReading:
    """How a durable feed is read.

    Attributes:
        on_alarm: Called with each alarm; what the feed repairs by itself is told nobody else.
        limits: What may be pulled ahead of the reader, whatever it has granted.
        heartbeat: Seconds between the server's signs of life, at least 0.1.
    """

    on_alarm: OnAlarm | None = None
    limits: Limits = DURABLE_LIMITS
    heartbeat: float = 5.0


class DurableFeed(Feed[JsMsg]):
    """A feed of a pull consumer; made by `durable_feed`. Messages are acknowledged by `acks`.

    Messages are delivered at least once: what was sent, but not acknowledged, comes again after the
    ack wait, to this feed or another one of the consumer. What was pulled and not taken when the
    feed is closed is given back at once.

    Attributes:
        stream, consumer: their names.
        acks: acknowledges the messages.
    """

    def __init__(
        self, js: JetStream, found: Found, reading: DurableReading, credit: Credit | None
    ) -> None:
        super().__init__(Inbox(reading.limits), credit)
        self.stream = found.stream
        self.consumer = found.consumer
        self.acks = Acking(js.client, js.timeout)
        self._js = js
        self._created = found.created
        self._reading = reading
        self._recovery: asyncio.Task[None] | None = None
        self._is_closing = False
        self._batch_max = found.info.config.max_batch if found.info else 0
        self._puller = self._new_puller()
        self._puller.ask()

    def _new_puller(self) -> Puller:
        return Puller(
            self._js,
            self,
            f"{self.stream}.{self.consumer}",
            takes_acks=True,
            batch_max=self._batch_max,
            heartbeat=self._reading.heartbeat,
        )

    async def batch(self, messages: int = 1000, within: float | None = None) -> list[JsMsg]:
        batch = await super().batch(messages, within)
        self._puller.ask()
        return batch

    def grant(self, messages: int, nbytes: int) -> None:
        super().grant(messages, nbytes)
        self._puller.ask()

    async def close(self) -> None:
        """End the feed, give back what was not taken; delete the consumer if it was created.

        Raises ApiError or ClientError when deleting failed.
        """
        self._is_closing = True
        await stop(self._recovery)
        try:
            await self._puller.drain()
        finally:
            self._puller.close()
            self._give_back()
        if self._created:
            self._created = False
            error = await delete_consumer(self._js, self.stream, self.consumer)
            if error is not None:
                raise error

    def _give_back(self) -> None:
        with suppress(ClientError):  # else the ack wait will do it
            self.acks.nak(self._inbox.clear())
        self._inbox.end()

    # -- the puller's taker ------------------------------------------------------------------

    def room(self) -> Limits:
        """Ask for what is granted and not pulled yet, as far as there is room for it."""
        if self._is_closing or self._is_recovering or not self._inbox.is_half_empty:
            return NOTHING
        left, room, waiting = self.credit.left, self._inbox.room, self._inbox
        return Limits(
            min(left.messages - waiting.messages, room.messages),
            min(left.nbytes - waiting.nbytes, room.nbytes),
        )

    def on_message(self, msg: JsMsg) -> None:
        self._inbox.put(msg)

    def on_heartbeat(self, last_consumer: int | None) -> None:
        """Others may pull from the consumer too: its sequences say nothing."""

    def on_read(self) -> None:
        self._inbox.wake()

    def on_failure(self, error: ClientError) -> None:
        self._tell(error)
        if not self._is_recovering and not self._is_closing:
            self._recovery = spawn(self._recover(), name="durable feed")

    def on_stray(self, error: NotJetStream) -> None:
        self._tell(error)

    def on_restored(self) -> None:
        self._puller.ask()

    def on_closed(self) -> None:
        self._inbox.end(ConnectionLost())

    @property
    def _is_recovering(self) -> bool:
        return self._recovery is not None and not self._recovery.done()

    async def _recover(self) -> None:
        """Pull again when the server says that the consumer is there; end when it is not."""
        wait = _RETRY_FIRST_S
        while True:
            await asyncio.sleep(wait)
            wait = min(wait * 2, _RETRY_MAX_S)
            try:
                await self._js.client.wait_connected()
                await self._js.consumer_info(self.stream, self.consumer)
                break
            except ApiError as error:
                if error.code == 404:
                    return self._inbox.end(error)
                self._tell(Interrupted(error))
            except ClientError as error:
                if self._js.client.closed:
                    return self._inbox.end(ConnectionLost())
                self._tell(Interrupted(error))
        # What the last request may still bring is not counted any more, and so not wanted.
        self._puller.close()
        self._puller = self._new_puller()
        asyncio.get_running_loop().call_soon(self._puller.ask)  # this task has ended by then

    def _tell(self, alarm: ClientError) -> None:
        if self._reading.on_alarm is not None:
            self._reading.on_alarm(alarm)


async def durable_feed(
    js: JetStream,
    target: Target,
    reading: DurableReading | None = None,
    credit: Credit | None = None,
) -> DurableFeed:
    """Begin a feed of a pull consumer, which is found or created.

    Raises SubscribeError, ApiError or ClientError.
    """
    found = await find_pull(js, target)
    try:
        return DurableFeed(js, found, reading or DurableReading(), credit)
    except ClientError:
        if found.created:
            await delete_consumer(js, found.stream, found.consumer)
        raise
