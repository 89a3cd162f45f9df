"""A feed of every message of a stream, in order, from a position on."""

from core.client.feeds.credit import Credit
from core.client.feeds.feed import Feed
from core.client.jetstream import JetStream
from core.client.subscribe.acks import JsMsg
from core.client.subscribe.ordered import OrderedReading, OrderedSubscription, Position, ordered
from core.client.subscribe.target import Target


class OrderedFeed(Feed[JsMsg]):
    """An ordered subscription with credit; made by `ordered_feed`.

    Attributes:
        position: behind which the next batch begins; a feed that resumes goes on behind it.
    """

    def __init__(self, subscription: OrderedSubscription, credit: Credit | None) -> None:
        super().__init__(subscription.inbox, credit)
        self._subscription = subscription
        self._taken = subscription.start

    @property
    def position(self) -> Position:
        return Position(self._subscription.incarnation, self._taken)

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._subscription.stream

    @property
    def recovered(self) -> bool:
        """Whether no position was lost, at the beginning or later."""
        return self._subscription.recovered

    async def batch(self, messages: int = 1000, within: float | None = None) -> list[JsMsg]:
        batch = await super().batch(messages, within)
        if batch:
            self._taken = batch[-1].stream_seq
        return batch

    async def close(self) -> None:
        await self._subscription.unsubscribe()


async def ordered_feed(
    js: JetStream,
    target: Target,
    reading: OrderedReading | None = None,
    credit: Credit | None = None,
) -> OrderedFeed:
    """Begin a feed of a stream. Raises SubscribeError, ApiError or ClientError."""
    return OrderedFeed(await ordered(js, target, reading), credit)
