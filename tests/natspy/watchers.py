"""Watchers of the official client that do not take a full bucket for an empty one."""

from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo

from tests.support.eventually import observed

Subscription = JetStreamContext.PushSubscription
_asked = Subscription.consumer_info


async def informed(sub: Subscription) -> ConsumerInfo:
    """What the server tells of a subscription's consumer; of an ordered one, when all is here that
    it had delivered by then.

    A watcher of a bucket asks how much is pending and looks how much has come: nothing of either
    means to it that nothing is there. The reference server's answer may overtake its messages.
    """
    info = await _asked(sub)
    jsi, delivered = sub._sub._jsi, info.delivered
    if jsi is not None and jsi._ordered and delivered is not None:
        await observed(lambda: sub.delivered >= delivered.consumer_seq)
    return info
