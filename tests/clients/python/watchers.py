"""Watchers of the official client that do not take a full bucket for an empty one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo

from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

_Subscription = JetStreamContext.PushSubscription


@contextmanager
def attentive(server: NatsServer | JetgateServer) -> Iterator[None]:
    """Let watchers be told of an ordered consumer when all is here that it had delivered by then.

    A watcher of a bucket asks how much is pending and looks how much has come: nothing of either
    means to it that nothing is there. The reference server's answer may overtake its messages.
    jetgate's does not, so with jetgate the client is as it is.
    """
    if isinstance(server, JetgateServer):
        yield
        return
    ask = _Subscription.consumer_info

    async def informed(sub: JetStreamContext.PushSubscription) -> ConsumerInfo:
        info = await ask(sub)
        jsi, delivered = sub._sub._jsi, info.delivered
        if jsi is not None and jsi._ordered and delivered is not None:
            await observed(lambda: sub.delivered >= delivered.consumer_seq)
        return info

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Subscription, "consumer_info", informed)
        yield
