"""The limits of the NATS port. The defaults are those of nats-server."""

from dataclasses import dataclass

from core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one client, except `max_connections`, which counts all connections.

    Sizes are in bytes. `max_subscriptions` and `max_subscription_tokens` 0 mean
    unlimited.
    """

    max_payload: int = 1024 * 1024
    max_control_line: int = 4096
    max_pending: int = 64 * 1024 * 1024
    write_deadline: Seconds = Seconds(10.0)
    max_connections: int = 65536
    max_subscriptions: int = 0
    max_subscription_tokens: int = 0
    ping_interval: Seconds = Seconds(120.0)
    ping_max: int = 2
    first_ping: Seconds = Seconds(2.0)
    no_header_support: bool = False
