"""The block `cluster {}` of the configuration, as immutable values.

Names and defaults follow nats-server's `cluster {}`:
https://docs.nats.io/running-a-nats-service/configuration/clustering/cluster_config
"""

from __future__ import annotations

from dataclasses import dataclass

from core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteUrl:
    """One URL of `routes = [nats-route://user:password@host:port]`: a server to connect to.

    `user` and `password` are sent to it; empty: none.
    """

    host: str
    port: int
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a server as a member of a cluster.

    Attributes:
        name: The cluster's name; generated when none is configured.
        is_dynamic: True if the name is generated: it is replaced by that of the cluster the server
            joins.
        host, port: Address on which routes are accepted; port 0: any free port.
        routes: The servers to connect to, without a limit of attempts.
        user, password: Credentials that other servers must send; an empty user: none are required.
        timeout_s: Seconds within which another server must send its CONNECT.
        advertise: The `host:port` announced to other servers instead of the bound address.
        no_advertise: True to announce neither client URLs of this server to others nor theirs to
            clients.
        connect_retries: Number of further attempts after a failed connect to a server from gossip.
    """

    name: str
    is_dynamic: bool = False
    host: str = "0.0.0.0"
    port: int = 6222
    routes: tuple[RouteUrl, ...] = ()
    user: str = ""
    password: str = ""
    timeout_s: Seconds = Seconds(2.0)
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
