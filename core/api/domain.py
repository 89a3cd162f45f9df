"""The API with a JetStream domain in its prefix: `$JS.<domain>.API.>` is mapped to `$JS.API.>`.

A request is delivered as if published on the mapped subject. If that subject has no subscription,
the answer is the status "no responders".
"""

from core.api.dispatcher import PREFIX
from core.pubsub.account import Account, ServiceSubscription, Session
from core.pubsub.receivers import MEMBERS_GROUP

_STORES = (b"$KV.", b"$OBJ.")
"""Subjects of KV and object stores: only the prefix is removed.

Clients put the API prefix of the domain in front of them.
"""


def serve_domain(account: Account, domain: str) -> ServiceSubscription | None:
    """Subscribe to the API prefix of a JetStream domain, and map requests to an account's API.

    Returns the subscription; None for an empty domain.
    """
    if not domain:
        return None
    prefix = b"$JS.%b.API." % domain.encode()

    def on_message(
        session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        rest = subject[len(prefix) :]
        mapped = rest if rest.startswith(_STORES) else PREFIX + rest
        receivers = account.receivers(mapped)
        if receivers.interest:
            account.deliver(receivers, session, mapped, reply, headers, payload)
            account.loop_tick.arm()
        elif reply and getattr(session, "no_responders", False):
            account.publish(reply, b"", b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % mapped, b"")

    return account.subscribe(prefix + b">", on_message, MEMBERS_GROUP)
