"""Finds the stream and the consumer of a subscription, or creates the consumer.

Source: ADR-15, "Stream name", "Consumer name", "NATS subscription", "Creating the JS Consumer".
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
"""Subscribes to the deliver subject of a push consumer."""


@dataclass(frozen=True, slots=True)
class BoundConsumer:
    """The consumer that a subscription reads from.

    Attributes:
        stream: Name of the stream.
        consumer: Name of the consumer.
        info: Its configuration and state; None if the lookup of a pull consumer failed.
        created: True if it was created for this subscription, which then deletes it at the end.
    """

    stream: str
    consumer: str
    info: ConsumerInfo | None
    created: bool


async def find_stream(js: JetStream, target: SubscriptionTarget) -> str:
    """Return the name of the stream that a target selects, by its name or its subject.

    Raises SubscribeError unless exactly one stream has the subject.
    """
    if target.stream:
        return target.stream
    names = await js.stream_names(target.subject)
    if len(names) == 1:
        return names[0]
    if not names:
        raise SubscribeError(Reason.NO_STREAM, target.subject)
    raise SubscribeError(Reason.SEVERAL_STREAMS, ", ".join(names))


async def find_pull(js: JetStream, target: SubscriptionTarget) -> BoundConsumer:
    """Find the pull consumer of a subscription, or create it.

    If the lookup of a named consumer fails, it is used nevertheless: a fetch will report errors.

    Raises:
        SubscribeError: The target is invalid, or differs from the existing consumer.
        ApiError: The lookup or the creation failed.
        ClientError: The server did not answer.
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
    """Find the push consumer of a subscription, or create it; return also its NATS subscription.

    The client subscribes to the deliver subject before it creates the consumer.

    Raises:
        SubscribeError: The target is invalid, or differs from the existing consumer.
        ApiError: The lookup or the creation failed.
        ClientError: The server did not answer.
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
    """Return the existing consumer; None if one has to be created."""
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
