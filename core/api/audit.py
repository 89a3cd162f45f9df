"""The audit of API requests: who asked what and what the answer was.

Made only while somebody listens to it. It follows the answer, and so the event of what the
request did.
"""

from typing import Protocol, cast

from core.jetstream.advisories import Advisories
from core.model.advisory import ClientInfo
from core.protocol.connect import Connect
from core.pubsub.account import Account, Session

_KINDS = {"WEBSOCKET": "websocket", "MQTT": "mqtt"}


class Client(Session, Protocol):
    """A session as the audit tells of it."""

    started: int
    client_ip: str
    rtt: int
    connect: Connect
    connection_type: str


class Audit:
    """Audits the requests of one account.

    Args:
        account: where events go.
        advisories: how they go.
    """

    def __init__(self, account: Account, advisories: Advisories) -> None:
        self._account = account
        self._advisories = advisories

    def is_heard(self) -> bool:
        """Tell whether somebody listens."""
        return self._advisories.audited()

    def tell(self, session: Session | None, subject: bytes, request: bytes, answer: bytes) -> None:
        """Tell of a request that was answered; what the server asks itself is not audited."""
        if session is not None:
            self._advisories.api_audit(self._client(session), subject, request, answer)

    def dropped(self, requests: int) -> None:
        """Tell that requests were dropped because too many waited."""
        self._advisories.api_limit_reached(requests)

    def _client(self, session: Session) -> ClientInfo:
        client = cast(Client, session)
        connect = client.connect
        return ClientInfo(
            start=client.started,
            host=client.client_ip,
            id=client.client_id,
            acc=self._account.name,
            user=client.user,
            name=connect.name,
            lang=connect.lang,
            ver=connect.version,
            rtt=client.rtt,
            server=self._account.hub.server_name,
            client_type=_KINDS.get(client.connection_type, "nats"),
        )
