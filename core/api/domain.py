"""The API under the name of a domain: `$JS.<domain>.API.>` is `$JS.API.>`.

A request is taken as if it had been sent to the other subject, by whoever listens there and with
the same answer when nobody does.
"""

from core.pubsub.account import Account, ServiceSubscription, Session

_API = b"$JS.API."
_ELSEWHERE = (b"$KV.", b"$OBJ.")
"""What is mapped to subjects outside the API: the stores of clients that know only a prefix."""


def serve_domain(account: Account, domain: str) -> ServiceSubscription | None:
    """Serve the API of an account under a domain's name ("": there is none); what to end later."""
    if not domain:
        return None
    prefix = b"$JS.%b.API." % domain.encode()

    def take(
        session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        rest = subject[len(prefix) :]
        mapped = rest if rest.startswith(_ELSEWHERE) else _API + rest
        route = account.route(mapped)
        if route.interest:
            account.deliver(route, session, mapped, reply, headers, payload)
            account.turn.arm()
        elif reply and getattr(session, "no_responders", False):
            account.publish(reply, b"", b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % mapped, b"")

    return account.subscribe(prefix + b">", take)
