"""The JSON of INFO and CONNECT between servers of a cluster, as nats-server 2.15.1 writes it.

Both sides send INFO; who dialled also sends CONNECT before it. Later INFO lines
of the same server tell what has changed there, those of another server make it known.
"""

import msgspec

from core.errors import ProtocolError

_encode = msgspec.json.Encoder().encode


class RouteInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The INFO of a server on a route; zero values are left out of its JSON.

    `ip` is where others reach the server, `nats-route://host:port/`: set by whoever passes its INFO
    on. `gossip_mode` 1 asks not to be passed on, 2 to be passed on to all. A server that
    announces no `route_pool_size` gets one connection.

    `holds` is an addition of this server: it reads HOLD and RELEASE, and between them the clients
    that send to the peer wait.

    What begins `jetgate_` are additions of this server, between the nodes of one database:
    `nonce` and `proof` (`core.route.proof`); `begins`: what is to come until the next INFO is the
    interest of who leads; `claims`: the lease groups that the node leads and serves now
    (`core.cluster.claims`); `offers`: groups that it has released, each with the name of the node
    that is to lead them next, others wait for a while; `asked`: a client wanted these to move;
    `directory_version`: the one it has read (`core.route.versions`); `evacuated`: the node is to
    lead nothing.
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
    claims: tuple[tuple[int, str], ...] = msgspec.field(name="jetgate_claims", default=())
    offers: tuple[tuple[str, str], ...] = msgspec.field(name="jetgate_offers", default=())
    asked: bool = msgspec.field(name="jetgate_asked", default=False)
    directory_version: int = msgspec.field(name="jetgate_directory", default=0)
    evacuated: bool = msgspec.field(name="jetgate_evacuated", default=False)


class RouteConnect(msgspec.Struct, kw_only=True):
    """The CONNECT of a server that dialled; `name` is its id, `lang` what only clients send."""

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
    """Return the INFO line."""
    return b"INFO %b\r\n" % _encode(info)


def encode_connect(connect: RouteConnect) -> bytes:
    """Return the CONNECT line."""
    fields = msgspec.to_builtins(connect)
    return b"CONNECT %b\r\n" % _encode({k: v for k, v in fields.items() if v != ""})


def decode_info(body: bytes) -> RouteInfo:
    """Read the JSON of an INFO. Raises ProtocolError."""
    try:
        return msgspec.json.decode(body, type=RouteInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(reason=f"bad INFO: {error}") from error


def decode_connect(body: bytes) -> RouteConnect:
    """Read the JSON of a CONNECT. Raises ProtocolError."""
    try:
        return msgspec.json.decode(body, type=RouteConnect)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(reason=f"bad CONNECT: {error}") from error


def without_leadership(info: RouteInfo) -> RouteInfo:
    """Return what a server says of itself, without what only nodes of one database tell others."""
    return msgspec.structs.replace(
        info,
        nonce="",
        proof="",
        begins=False,
        claims=(),
        offers=(),
        asked=False,
        directory_version=0,
    )


def takes_name(own: str, is_dynamic: bool, other: str, other_is_dynamic: bool) -> bool:
    """Say whether a server takes over the name of the cluster it has met.

    A made-up name gives way to a configured one, and to a made-up one that is greater.
    """
    return is_dynamic and (not other_is_dynamic or own < other)
