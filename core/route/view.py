"""The state of a route as /routez and /varz of the monitoring show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteInterest:
    """A subscription of another server of the cluster, as /routez shows it.

    `weight` is the number of members in the queue group; 0 without a queue group.
    """

    account: str
    subject: str
    queue: str = ""
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """One route at one moment, under the names that nats-server's /routez gives its fields.

    Times are nanoseconds: `start` and `last_activity` since the Unix epoch, `rtt` (0: not measured
    yet), `uptime` and `idle` as durations. `client_urls` are the client URLs that the other server
    announces.
    """

    rid: int
    remote_id: str
    remote_name: str
    did_solicit: bool
    is_configured: bool
    ip: str
    port: int
    start: int
    last_activity: int
    rtt: int
    uptime: int
    idle: int
    pending_size: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    num_subscriptions: int
    subscriptions: tuple[RouteInterest, ...] = ()
    client_urls: tuple[str, ...] = ()
