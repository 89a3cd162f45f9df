"""What the block `cluster {}` says, as frozen values: where routes are accepted, whom to dial, and by what secret.

The field names and defaults follow nats-server's `cluster {}` (https://docs.nats.io/running-a-nats-service/configuration/clustering).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteUrl:
    """One of `routes = [nats-route://user:password@host:port]`; user and password are what is given to that server."""

    host: str
    port: int
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A server's part of a cluster.

    `name` is made up, and `is_dynamic` true, where no name is configured: such a server takes the name of the cluster it
    meets. `user` and `password` are what peers must give (empty: nothing). `timeout_s` bounds the wait for a peer's
    CONNECT. `advertise` is the `host:port` told to other servers in place of the bound one; `no_advertise` keeps client
    URLs of peers from clients. `connect_retries` is how often the dial of a gossiped route is made again; configured
    routes are dialled for ever.
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
