"""The block `cluster {}` of the configuration, as frozen values.

Names and defaults follow nats-server's `cluster {}`:
https://docs.nats.io/running-a-nats-service/configuration/clustering/cluster_config
"""

from __future__ import annotations

from dataclasses import dataclass

from core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteUrl:
    """One URL of `routes = [nats-route://user:password@host:port]`, with credentials to send."""

    host: str
    port: int
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A server's part of a cluster.

    Attributes:
        name: The cluster's name; generated when none is configured.
        is_dynamic: The name is generated, and gives way to that of the cluster the server joins.
        host, port: Where routes are accepted; port 0 takes a free one.
        routes: The servers to dial, without a limit of attempts.
        user, password: Credentials that peers must send; an empty user asks for none.
        timeout_s: Seconds within which a peer must send its CONNECT.
        advertise: The `host:port` announced to other servers instead of the bound address.
        no_advertise: Neither announce client URLs of this server to peers nor theirs to clients.
        connect_retries: How often the failed dial of a gossiped route is repeated.
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
