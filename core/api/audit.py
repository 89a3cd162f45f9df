"""The audit advisory of API requests: the client, the request and the response.

It is made only while its subject has a subscription, and published after the response, so also
after the advisory of what the request did.
"""

from typing import Protocol, cast

from core.jetstream.advisories import Advisories
from core.model.advisory import ClientInfo
from core.protocol.connect import Connect
from core.pubsub.account import Account, Session

_KINDS = {"WEBSOCKET": "websocket", "MQTT": "mqtt"}


class Client(Session, Protocol):
    """The attributes of a session that the audit contains."""

    started: int
    client_ip: str
    rtt: int
    connect: Connect
    connection_type: str


class Audit:
    """Publishes the audit advisories of one account."""

    def __init__(self, account: Account, advisories: Advisories) -> None:
        self._account = account
        self._advisories = advisories

    def has_interest(self) -> bool:
        """Say whether the audit has a subscription."""
        return self._advisories.audited()

    def record(
        self, session: Session | None, subject: bytes, request: bytes, answer: bytes
    ) -> None:
        """Publish the audit of a request; requests of the server itself are not audited."""
        if session is not None:
            self._advisories.api_audit(self._client(session), subject, request, answer)

    def dropped(self, requests: int) -> None:
        """Publish that requests were dropped because too many were queued."""
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
