"""The audit advisory of API requests: the client, the request and the response.

It is made only while its subject has a subscription, and published after the response, so also
after the advisory of what the request did.

Who serves a request publishes its audit, once. Where another node has sent it on, that one has told
who the client is: in the first header, under the name that nats-server has for this. What a client
says there itself is never believed: on a request that is served at once the header means nothing,
and one that is sent on has the node's own in front of it.
"""

from typing import cast

from core.jetstream.advisories import Advisories
from core.model import codec
from core.model.advisory import ClientInfo
from core.model.gojson import JsonError
from core.protocol.headers import EMPTY
from core.pubsub.account import Account, Session
from core.pubsub.server import Connection
from core.stream.headers import REQUEST_INFO

_KINDS = {"WEBSOCKET": "websocket", "MQTT": "mqtt"}
_LINE_END = b"\r\n"


class Audit:
    """Publishes the audit advisories of one account."""

    def __init__(self, account: Account, advisories: Advisories) -> None:
        self._account = account
        self._advisories = advisories

    def has_interest(self) -> bool:
        """Say whether the audit has a subscription."""
        return self._advisories.audited()

    def introduce(self, session: Session | None, headers: bytes) -> bytes:
        """Return the headers with which a request is sent on: they say first who the client is.

        They stay as they are while nobody listens, but for what would be taken for that.
        """
        client = self._client(session) if session is not None and self.has_interest() else None
        if client is None and without_client(headers)[0] == headers:
            return headers
        return _with_client(headers, b"" if client is None else codec.encode(client))

    def record(
        self, session: Session | None, told: bytes, subject: bytes, request: bytes, answer: bytes
    ) -> None:
        """Publish the audit of a request; requests of the server itself are not audited.

        `told`: what the node that has sent it on says of the client.
        """
        client = _client_of(told) if session is None else self._client(session)
        if client is not None:
            self._advisories.api_audit(client, subject, request, answer)

    def dropped(self, requests: int) -> None:
        """Publish that requests were dropped because too many were queued."""
        self._advisories.api_limit_reached(requests)

    def _client(self, session: Session) -> ClientInfo:
        client = cast(Connection, session)
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


def _with_client(headers: bytes, text: bytes) -> bytes:
    """Return a header block that says first who the client is; empty: nobody who is audited."""
    line = b"%b: %b\r\n" % (REQUEST_INFO, text)
    first, end, rest = (headers or EMPTY).partition(_LINE_END)
    return first + end + line + rest if end else headers  # without a line it says nothing


def without_client(headers: bytes) -> tuple[bytes, bytes]:
    """Return the header block of a request as its client sent it, and what says who that is.

    A block without any header becomes none.
    """
    first, end, rest = headers.partition(_LINE_END)
    if not rest.startswith(REQUEST_INFO + b":"):
        return headers, b""
    line, _, rest = rest.partition(_LINE_END)
    block = first + end + rest
    return b"" if block == EMPTY else block, line[len(REQUEST_INFO) + 1 :].strip()


def _client_of(told: bytes) -> ClientInfo | None:
    try:
        return codec.decode_lenient(ClientInfo, told) if told else None
    except JsonError:  # of a server that is no node
        return None
