"""What the block `cluster {}` says, as frozen values: where to accept routes, whom to dial.

Names and defaults follow nats-server's `cluster {}`:
https://docs.nats.io/running-a-nats-service/configuration/clustering/cluster_config
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteUrl:
    """One of `routes = [nats-route://user:password@host:port]`; user and password go there."""

    host: str
    port: int
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A server's part of a cluster.

    Attributes:
        name: the cluster's name; made up when none is configured.
        is_dynamic: the name is made up, and gives way to that of the cluster it meets.
        host, port: where routes are accepted; port 0 takes a free one.
        routes: the servers to dial, for ever.
        user, password: what peers must give; empty: nothing.
        timeout_s: how long a peer may take until its CONNECT.
        advertise: the `host:port` told to other servers in place of the bound one.
        no_advertise: keep client URLs of this server from the others, and theirs from clients.
        connect_retries: how often the failed dial of a gossiped route is made again.
    """

    name: str
    is_dynamic: bool = False
    host: str = "0.0.0.0"
    port: int = 6222
    routes: tuple[RouteUrl, ...] = ()
    user: str = ""
    password: str = ""
    timeout_s: float = 2.0
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
