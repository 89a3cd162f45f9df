"""The JSON of INFO and CONNECT between servers of a cluster, as nats-server 2.15.1 writes it.

Both sides send INFO; the dialling side also sends CONNECT before it. A later INFO with the sender's
own server id announces changes of the sender; an INFO with another id announces another server.
"""

import msgspec

from core.errors import ProtocolError

_encode = msgspec.json.Encoder().encode


class RouteInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The INFO of a server on a route; zero values are left out of its JSON.

    The fields with names `jetgate_` in JSON are additions of this server. All but `holds` are for
    the nodes of one database only. A server that announces no `route_pool_size` gets one
    connection.

    Attributes:
        ip: Address under which others reach the server, `nats-route://host:port/`; set by the
            server that forwards its INFO.
        gossip_mode: 1 asks not to forward this INFO, 2 to forward it to all.
        holds: The server understands HOLD and RELEASE: between the two, the server that receives
            them makes its clients wait before they send more to the overloaded server.
        nonce, proof: The proof that both share a database, see `core.route.proof`.
        begins: Subscriptions of newly owned lease groups are sent next, up to the following INFO.
        fencing_tokens: Those of the lease groups that the node owns and serves now
            (`core.cluster.token_masks`).
        offers: Lease groups that the node has released, each set with the name of the node that is
            to own it next. Other nodes wait a while before they acquire them.
        asked: A client requested the transfer of the `offers`.
        directory_version: Version of the stream directory that the node has read
            (`core.route.versions`).
        evacuated: The node is to own no lease group.
    """

    server_id: str
    server_name: str = ""
    version: str = ""
    proto: int = 0
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: list[str] | None = None
    ws_connect_urls: list[str] | None = None
    ldm: bool = False
    gossip_mode: int = 0
    route_account: str = ""
    holds: bool = msgspec.field(name="jetgate_holds", default=False)
    nonce: str = msgspec.field(name="jetgate_nonce", default="")
    proof: str = msgspec.field(name="jetgate_proof", default="")
    begins: bool = msgspec.field(name="jetgate_begins", default=False)
    fencing_tokens: tuple[tuple[int, str], ...] = msgspec.field(name="jetgate_claims", default=())
    offers: tuple[tuple[str, str], ...] = msgspec.field(name="jetgate_offers", default=())
    asked: bool = msgspec.field(name="jetgate_asked", default=False)
    directory_version: int = msgspec.field(name="jetgate_directory", default=0)
    evacuated: bool = msgspec.field(name="jetgate_evacuated", default=False)


class RouteConnect(msgspec.Struct, kw_only=True):
    """The CONNECT of the server that opened a route; `name` is its server id.

    Only clients send `lang`.
    """

    echo: bool = True
    verbose: bool = False
    pedantic: bool = False
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    tls_required: bool = False
    headers: bool = False
    name: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    lang: str = ""


def encode_info(info: RouteInfo) -> bytes:
    """Return the INFO line for a route."""
    return b"INFO %b\r\n" % _encode(info)


def encode_connect(connect: RouteConnect) -> bytes:
    """Return the CONNECT line for a route, without empty fields."""
    fields = msgspec.to_builtins(connect)
    return b"CONNECT %b\r\n" % _encode({k: v for k, v in fields.items() if v != ""})


def decode_info(body: bytes) -> RouteInfo:
    """Decode the JSON of an INFO on a route. Raises ProtocolError if it is malformed."""
    try:
        return msgspec.json.decode(body, type=RouteInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(reason=f"bad INFO: {error}") from error


def decode_connect(body: bytes) -> RouteConnect:
    """Decode the JSON of a CONNECT on a route. Raises ProtocolError if it is malformed."""
    try:
        return msgspec.json.decode(body, type=RouteConnect)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(reason=f"bad CONNECT: {error}") from error


def without_leadership(info: RouteInfo) -> RouteInfo:
    """Return an INFO without the fields that have a meaning only between nodes of one database.

    It is used for servers without a proof, whose lease groups must be ignored.
    """
    return msgspec.structs.replace(
        info,
        nonce="",
        proof="",
        begins=False,
        fencing_tokens=(),
        offers=(),
        asked=False,
        directory_version=0,
    )


def takes_name(own: str, is_dynamic: bool, other: str, other_is_dynamic: bool) -> bool:
    """Return whether a server takes over the cluster name of a server it connects with.

    A generated (`is_dynamic`) name is replaced by a configured one, and by a generated one that is
    greater.
    """
    return is_dynamic and (not other_is_dynamic or own < other)
