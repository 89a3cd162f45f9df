"""Pull subscriptions (ADR-15): the client requests messages.

The statuses 404 and 408 end a fetch without an error; 409, 503 and unknown statuses are raised.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from core.client.errors import ClientError
from core.client.jetstream import JetStream
from core.client.msg import Msg
from core.client.pull import Pull
from core.client.subscribe import lookup
from core.client.subscribe.acks import NAK, Acking, JsMsg
from core.client.subscribe.deleting import delete_consumer
from core.client.subscribe.errors import HeartbeatsMissed, NotJetStream, StatusRaised
from core.client.subscribe.status import HIDDEN
from core.client.subscribe.target import SubscriptionTarget
from core.model.consumer import ConsumerInfo, NextRequest
from core.units import NANOS_PER_SECOND

_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The settings of one fetch (pull request).

    Attributes:
        messages: Largest number of messages.
        nbytes: Largest number of bytes; 0: no limit.
        expires: Seconds until the fetch ends with the messages received so far.
        no_wait: True to return only messages that exist already.
        heartbeat: Seconds between idle heartbeats; three missed ones are an alarm. 0: none.
        group: Name of the priority group (ADR-42); empty: none.
        priority: Priority of the request in its group, for the policy `prioritized`.
        min_pending: Serve the request only if this many messages are pending (policy `overflow`).
        min_ack_pending: The same for messages with a pending acknowledgement.
    """

    messages: int = 1
    nbytes: int = 0
    expires: float = 5.0
    no_wait: bool = False
    heartbeat: float = 0.0
    group: str = ""
    priority: int = 0
    min_pending: int = 0
    min_ack_pending: int = 0

    def request(self) -> NextRequest:
        """Return the settings as the body of a pull request."""
        return NextRequest(
            batch=self.messages,
            max_bytes=self.nbytes,
            expires=0 if self.no_wait else round(self.expires * NANOS_PER_SECOND),
            no_wait=self.no_wait,
            idle_heartbeat=round(self.heartbeat * NANOS_PER_SECOND),
            group=self.group,
            priority=self.priority,
            min_pending=self.min_pending,
            min_ack_pending=self.min_ack_pending,
        )


class PullSubscription(Acking):
    """A subscription to a pull consumer; created by `pull`.

    *Life cycle*: ends with `unsubscribe` or `async with`. The consumer is then deleted if it was
    created for this subscription.

    Attributes:
        stream: Name of the stream.
        consumer: Name of the consumer.
        created: True if the consumer was created for this subscription.
        info: The consumer as found or created; None if it could not be looked up.
    """

    def __init__(self, js: JetStream, found: lookup.BoundConsumer) -> None:
        super().__init__(js.client, js.timeout)
        self.stream = found.stream
        self.consumer = found.consumer
        self.created = found.created
        self.info: ConsumerInfo | None = found.info
        self._js = js
        self._ended = False
        self._pulls: set[Pull] = set()
        self._stray: NotJetStream | None = None

    async def fetch(self, wanted: FetchOptions | None = None) -> list[JsMsg]:
        """Request messages and return those that arrive; an empty list after `expires` seconds.

        Without any message it raises StatusRaised for an error status, and HeartbeatsMissed. If the
        call is cancelled, the received messages are given back to the server (`-NAK`).
        """
        if self._ended:
            return []
        self._raise_stray()
        wanted = wanted or FetchOptions()
        pull = self._js.pull(self.stream, self.consumer, wanted.request())
        self._pulls.add(pull)
        missed = False
        try:
            missed = await self._wait(pull, wanted)
            await pull.release()
        except BaseException:
            await pull.release()
            self._give_back(pull.pop_messages())
            raise
        finally:
            self._pulls.discard(pull)
        messages = self._read(pull.pop_messages())
        if not messages:
            self._raise_stray()
            if pull.status not in HIDDEN and pull.text != "Batch Completed":
                raise StatusRaised(pull.status, pull.text)
            if missed:
                raise HeartbeatsMissed(wanted.heartbeat * 3)
        return messages

    async def batches(self, wanted: FetchOptions | None = None) -> AsyncIterator[list[JsMsg]]:
        """Fetch repeatedly, until the subscription ends or a fetch raises an error."""
        while not self._ended:
            if batch := await self.fetch(wanted):
                yield batch

    async def __aiter__(self) -> AsyncIterator[JsMsg]:
        async for batch in self.batches(FetchOptions(messages=500)):
            for msg in batch:
                yield msg

    async def unsubscribe(self) -> None:
        """End the subscription; open fetches return the messages that they have.

        The consumer is deleted if it was created for this subscription. Raises ApiError or
        ClientError if that failed.
        """
        self._ended = True
        for pull in self._pulls:
            pull.interrupt()
        if self.created:
            self.created = False
            error = await delete_consumer(self._js, self.stream, self.consumer)
            if error is not None:
                raise error

    drain = unsubscribe

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()

    async def _wait(self, pull: Pull, wanted: FetchOptions) -> bool:
        """Wait for the end of a pull request; return True if its heartbeats were missed."""
        loop = asyncio.get_running_loop()
        limit = (self._timeout if wanted.no_wait else wanted.expires) + _GRACE_S
        deadline = loop.time() + limit
        silence = wanted.heartbeat * 3 or limit
        while not pull.ended and not pull.interrupted:
            left = deadline - loop.time()
            if not await pull.changed(max(min(silence, left), 0.0)):
                return silence < left
        return False

    def _read(self, messages: list[Msg]) -> list[JsMsg]:
        read: list[JsMsg] = []
        for msg in messages:
            try:
                read.append(JsMsg.of(msg, takes_acks=True))
            except NotJetStream as error:
                self._stray = error
        return read

    def _raise_stray(self) -> None:
        """Raise the error for a message that no consumer delivered, after the others are read."""
        if self._stray is not None:
            error, self._stray = self._stray, None
            raise error

    def _give_back(self, messages: list[Msg]) -> None:
        try:
            for msg in messages:
                self._client.publish(msg.reply, NAK)
        except ClientError:
            return  # the ack wait causes redelivery


async def pull(js: JetStream, target: SubscriptionTarget) -> PullSubscription:
    """Subscribe to a pull consumer; it is created if it does not exist.

    Raises:
        SubscribeError: The target is invalid, or differs from the existing consumer.
        ApiError: The lookup or the creation of the consumer failed.
        ClientError: The server did not answer.
    """
    return PullSubscription(js, await lookup.find_pull(js, target))
