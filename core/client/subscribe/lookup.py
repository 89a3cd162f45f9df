"""The search for the stream and the consumer of a subscription, and the consumer's creation.

ADR-15, "Stream name", "Consumer name", "NATS subscription" and "Creating the JS Consumer".
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.client.client import Subscription
from core.client.errors import ClientError, ConnectionLost
from core.client.jetstream import JetStream
from core.client.subscribe.errors import Reason, SubscribeError
from core.client.subscribe.target import DeliveryKind, SubscriptionTarget
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import ConsumerInfo

_NOT_FOUND = err_code("JSConsumerNotFound")
_EXISTS = (
    err_code("JSConsumerNameExist"),
    err_code("JSConsumerExistingActive"),
    err_code("JSConsumerAlreadyExists"),
)

Subscribe = Callable[[bytes], Subscription]
"""Subscribes to the deliver subject of a consumer."""


@dataclass(frozen=True, slots=True)
class BoundConsumer:
    """A consumer to read from.

    Attributes:
        info: None if a pull consumer could not be looked up.
        created: True if the consumer was created for this subscription, which then deletes it.
    """

    stream: str
    consumer: str
    info: ConsumerInfo | None
    created: bool


async def find_stream(js: JetStream, target: SubscriptionTarget) -> str:
    """Return the name of the stream. Raises SubscribeError unless exactly one matches."""
    if target.stream:
        return target.stream
    names = await js.stream_names(target.subject)
    if len(names) == 1:
        return names[0]
    if not names:
        raise SubscribeError(Reason.NO_STREAM, target.subject)
    raise SubscribeError(Reason.SEVERAL_STREAMS, ", ".join(names))


async def find_pull(js: JetStream, target: SubscriptionTarget) -> BoundConsumer:
    """Find or create a pull consumer.

    A named consumer whose lookup fails is used as it is: a fetch will report errors.

    Raises SubscribeError, ApiError or ClientError.
    """
    target.check(DeliveryKind.PULL)
    stream = await find_stream(js, target)
    try:
        info = await _look_up(js, stream, target)
    except (ApiError, ClientError) as error:
        if not target.consumer or isinstance(error, ConnectionLost):
            raise
        return BoundConsumer(stream, target.consumer, None, created=False)
    if info is not None:
        target.check_existing(info, DeliveryKind.PULL)
        return BoundConsumer(stream, info.name, info, created=False)
    try:
        info = await js.add_consumer(stream, target.new_config(""))
    except ApiError as error:
        if error.err_code not in _EXISTS:
            raise
        info = await js.consumer_info(stream, target.consumer_name)
        target.check_existing(info, DeliveryKind.PULL)
        return BoundConsumer(stream, info.name, info, created=False)
    return BoundConsumer(stream, info.name, info, created=True)


async def find_push(
    js: JetStream, target: SubscriptionTarget, subscribe: Subscribe
) -> tuple[BoundConsumer, Subscription]:
    """Find or create a push consumer; subscribe before creating it.

    Raises SubscribeError, ApiError or ClientError.
    """
    target.check(DeliveryKind.PUSH)
    stream = await find_stream(js, target)
    info = await _look_up(js, stream, target)
    if info is not None:
        return _bind(subscribe, target, stream, info)
    inbox = target.config.get("deliver_subject") or js.client.new_inbox().decode()
    sub = subscribe(inbox.encode())
    try:
        info = await js.add_consumer(stream, target.new_config(inbox))
    except ApiError as error:
        sub.unsubscribe()
        if error.err_code not in _EXISTS:
            raise
    except BaseException:
        sub.unsubscribe()
        raise
    else:
        return BoundConsumer(stream, info.name, info, created=True), sub
    # The consumer did not exist at the lookup: another client has just created it.
    if not target.queue:
        raise SubscribeError(Reason.ALREADY_EXISTS, target.consumer_name)
    info = await js.consumer_info(stream, target.consumer_name)
    return _bind(subscribe, target, stream, info)


async def _look_up(js: JetStream, stream: str, target: SubscriptionTarget) -> ConsumerInfo | None:
    """Return the consumer, or None if one has to be created."""
    if not target.consumer_name:
        return None
    try:
        return await js.consumer_info(stream, target.consumer_name)
    except ApiError as error:
        if target.consumer or error.err_code != _NOT_FOUND:
            raise
        return None


def _bind(
    subscribe: Subscribe, target: SubscriptionTarget, stream: str, info: ConsumerInfo
) -> tuple[BoundConsumer, Subscription]:
    target.check_existing(info, DeliveryKind.PUSH)
    subject = info.config.deliver_subject.encode()
    sub = subscribe(subject)
    return BoundConsumer(stream, info.name, info, created=False), sub
