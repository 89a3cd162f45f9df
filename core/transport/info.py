"""Builds the INFO that the server sends to a client, about the server and the connection."""

from core.model.release import API_LEVEL, SERVER_VERSION
from core.protocol.connect import Info
from core.pubsub.server import WEBSOCKET, Connection, Hub

GO_VERSION = "go1.27.2"
"""Clients parse this member; it names the toolchain of the compatible nats-server release."""


def info_of(hub: Hub, session: Connection) -> Info:
    """Return the INFO to send over one connection.

    The addresses depend on its type (TCP, WebSocket).
    """
    host, port = session.address or hub.client_address()
    authenticator = hub.authenticator_for(session.connection_type)
    # nats-server sets auth_required over WebSocket even if it accepts clients without credentials.
    is_asked = session.is_connected or session.connection_type == WEBSOCKET
    return Info(
        server_id=hub.server_id,
        server_name=hub.server_name,
        version=SERVER_VERSION,
        proto=1,
        go=GO_VERSION,
        host=host,
        port=port,
        headers=not hub.limits.no_header_support,
        auth_required=authenticator is not None
        and (is_asked or not authenticator.users.no_auth_user),
        max_payload=hub.limits.max_payload,
        jetstream=hub.jetstream,
        client_id=session.client_id,
        client_ip=session.client_ip,
        cluster=hub.cluster,
        connect_urls=_connect_urls(hub, session),
        ldm=hub.ldm,
        domain=hub.domain,
        api_lvl=API_LEVEL,
        xkey=hub.xkey,
    )


def _connect_urls(hub: Hub, session: Connection) -> list[str]:
    """Return the addresses where the client may connect: over WebSocket, the WebSocket ones."""
    is_over = session.connection_type == WEBSOCKET
    return list(hub.ws_connect_urls if is_over else hub.connect_urls)
