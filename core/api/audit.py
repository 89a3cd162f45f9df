"""The API audit advisory: the client, the request and the response, one for each API request.

The advisory is built only while its subject has a subscription. It is published after the response,
and therefore also after the advisories of the request's effects.

The node that serves a request publishes the advisory. A node that forwards a request adds the
client as JSON in the first header, with the header name of nats-server (`REQUEST_INFO`). A client
cannot forge it: on a request received from a client the header is ignored, and on a forwarded
request the header of the node precedes that of the client.
"""

from typing import cast

from core.jetstream.advisories import Advisories
from core.model import codec
from core.model.advisory import ClientInfo
from core.model.gojson import JsonError
from core.protocol.headers import EMPTY
from core.pubsub.account import Account, Session
from core.pubsub.server import Connection
from core.rules.stream.headers import REQUEST_INFO

_KINDS = {"WEBSOCKET": "websocket", "MQTT": "mqtt"}
_LINE_END = b"\r\n"


class Audit:
    """Publishes the audit advisories of API requests of one account."""

    def __init__(self, account: Account, advisories: Advisories) -> None:
        self._account = account
        self._advisories = advisories

    def has_interest(self) -> bool:
        """Return whether the subject of the audit advisory has a subscription."""
        return self._advisories.audited()

    def introduce(self, session: Session | None, headers: bytes) -> bytes:
        """Return the header block of a request to forward, with the client's description in front.

        The block is unchanged if the audit advisory has no subscription. In this case an empty
        description is added only if the client has sent a forged one.
        """
        client = self._client(session) if session is not None and self.has_interest() else None
        if client is None and without_client(headers)[0] == headers:
            return headers
        return _with_client(headers, b"" if client is None else codec.encode(client))

    def record(
        self, session: Session | None, told: bytes, subject: bytes, request: bytes, answer: bytes
    ) -> None:
        """Publish the audit advisory of an answered API request.

        Does nothing for a request of the server itself. `session` is the client's session; None:
        another node forwarded the request. `told` is then the description of the client (JSON) that
        this node has sent; empty: none. `answer` is the response as JSON.
        """
        client = _client_of(told) if session is None else self._client(session)
        if client is not None:
            self._advisories.api_audit(client, subject, request, answer)

    def dropped(self, requests: int) -> None:
        """Publish the advisory that API requests were dropped because too many were queued.

        `requests` is the number of dropped requests.
        """
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
    """Return a header block with the client's JSON in front; `text` is empty if there is none."""
    line = b"%b: %b\r\n" % (REQUEST_INFO, text)
    first, end, rest = (headers or EMPTY).partition(_LINE_END)
    return first + end + line + rest if end else headers  # A block without a line has no header.


def without_client(headers: bytes) -> tuple[bytes, bytes]:
    """Split the header block of a forwarded request.

    Returns the client's own block, and the JSON of the client that the forwarding node has put in
    front (empty: none). An own block without any header becomes empty.
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
    except JsonError:  # Sent by a server that is no node of this database.
        return None
